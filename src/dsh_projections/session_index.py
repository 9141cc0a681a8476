"""The index of a store's sessions: the tracked read model behind a list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_projections.runner import TrackedProjection
from dsh_projections.session_counts import Counts, SessionCounts

if TYPE_CHECKING:
    from dsh_session import SessionStore


class SessionIndex(TrackedProjection[Counts]):
    """Title, counts and times of every session, as of the last `TrackedProjection.catch_up`.

    Args:
        store: the store.
    """

    def __init__(self, store: SessionStore) -> None:
        super().__init__(store, "session-index", SessionCounts)
