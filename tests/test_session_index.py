from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_projections import Counts, SessionCounts, SessionIndex, replay
from dsh_projections.testing import session_logs
from stored import fill

if TYPE_CHECKING:
    from dsh_session import SessionEvent, SessionStore

NEW_IDS = count()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs=st.lists(session_logs(), min_size=1, max_size=3), cuts=st.lists(st.integers(0, 30), max_size=3))
def test_the_index_shows_what_each_log_counts(
    store: SessionStore, logs: list[list[SessionEvent]], cuts: list[int]
) -> None:
    """However a store has grown, and whenever it was caught up with, each session's counts are those of its log."""
    # given
    sessions = [store.create(id=f"{next(NEW_IDS)}") for _ in logs]
    for cut in [*sorted(cuts), 10_000]:
        for session, log in zip(sessions, logs, strict=True):
            fill(session, log[session.next_seq : cut])
            store.save(session)
        # when
        index = SessionIndex(store)
        index.catch_up()
        # then
        for session, log in zip(sessions, logs, strict=True):
            assert replay(SessionCounts(), log[: session.next_seq]).view() == index.view(session.id)
    expected = {session.id: index.view(session.id) for session in sessions}
    assert expected == {session.id: Counts() for session in sessions} | {
        session_id: counts for session_id, counts in index.views() if session_id in expected
    }


def test_a_session_without_events_counts_nothing(store: SessionStore) -> None:
    """A session of which nothing was counted has no row, and a view with nothing in it."""
    # given
    store.create(id="s")
    index = SessionIndex(store)
    # when
    index.catch_up()
    # then
    assert ({}, Counts()) == (dict(index.views()), index.view("s"))
