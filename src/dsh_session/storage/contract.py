"""What a database owes a store: rows, tracked states, the words of texts, and a signal when something was saved.

A further database implements `SessionRecorder` and what it hands out, and needs to read no other module of this
package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from dsh_session.errors import DamagedStoreError, SessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Self

SCHEMA_VERSION: Final = 1
"""Written to a database of ours as its version; one that says more is from a newer library."""

Row = tuple[int, str, bytes]
"""A stored event less its originator: version, topic, state."""

Transaction: TypeAlias = "Callable[..., AbstractContextManager[Any]]"
"""Begins a transaction, which ``commit`` says how to end, and gives its cursor."""

Guard: TypeAlias = "Callable[[], AbstractContextManager[None]]"
"""Turns what a database raises into this library's errors, while it is entered."""

Phrase: TypeAlias = "Sequence[str]"
"""Words that stand one after the other."""


class SessionRecorder(Protocol):
    """What the store asks of a recorder beyond the library's contract.

    Versions are gapless within one originator, so a range of them is a slice.
    """

    def create_table(self) -> None:
        """Make the tables that are missing."""
        ...

    def insert_after(self, originator_id: str, rows: Iterable[Row], after: int) -> None:
        """Insert rows behind version ``after`` of one originator, in one transaction.

        The rows are drawn from the iterable inside the transaction: a long log needs no memory, and an error of the
        iterable undoes all of it. ``after`` is -1 for a new originator.

        Raises:
            IntegrityError: a version is taken, or the version ``after`` is not there.
        """
        ...

    def insert_fork(self, originator_id: str, parent_id: str, length: int, rows: Sequence[Row]) -> None:
        """Insert a new originator, in one transaction: version 0, those of a parent up to ``length``, and one more.

        Args:
            originator_id: the new one.
            parent_id: whose versions 1 to ``length`` are copied, in the database.
            length: how many they are.
            rows: those with the versions 0 and ``length`` + 1.

        Raises:
            IntegrityError: a version is taken.
            DamagedStoreError: the parent lacks one of the versions.
        """
        ...

    def select_rows(self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int) -> list[Row]:
        """Return the rows with versions from ``start`` to below ``stop``."""
        ...

    def select_topics(
        self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return versions and topics without the states; those of the named topics only, where some are named."""
        ...

    def select_versions(self, originator_id: str, versions: Sequence[int]) -> list[Row]:
        """Return the rows of some versions, in no order."""
        ...

    def max_version(self, originator_id: str) -> int | None:
        """Return the newest version of an originator, or None when it has none."""
        ...

    def select_originators(self, after: str, limit: int) -> list[str]:
        """Return originator ids above ``after``, in their order."""
        ...

    def watch(self) -> Watch | None:
        """Begin to watch for anybody's inserts, or return None where the database does not tell."""
        ...

    def tracker(self, guard: Guard) -> Tracker:
        """Return where the states of tracked projections are kept; ``guard`` is entered around each transaction."""
        ...

    def text_index(self, guard: Guard, version: int) -> TextIndex:
        """Return where the words of texts are kept; ``guard`` is entered around each transaction."""
        ...


class Tracker(Protocol):
    """Keeps, by the name of a projection, a position in the store's stream of events, and one state a session.

    All of it is of one version of the projection. What is asked of another version is not there, and the first move of
    another version throws it away.
    """

    def position(self, name: str, version: int) -> int:
        """Return the position; 0 when nothing has moved yet."""
        ...

    def states(self, name: str, version: int, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions, as far as there are any."""
        ...

    def all_states(self, name: str, version: int) -> list[tuple[str, bytes]]:
        """Return every session's state, by session id."""
        ...

    def move(self, name: str, version: int, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states in one transaction.

        Returns:
            False, and nothing is changed, when the position is not ``before``: somebody else has moved it.
        """
        ...


class PlaintextIndexError(SessionError, PermissionError):
    """A store that is enciphered was asked for an index, which would hold its texts in the clear."""


class TextPlace(NamedTuple):
    """Where a text stands: the session, the seq of its event, and what kind of text it is."""

    session_id: str
    seq: int
    kind: str


class IndexedText(NamedTuple):
    """A text to be found again.

    Attributes:
        position: of its event in the store's stream.
        place: where it stands.
        words: its words in their order, of letters and digits only. PostgreSQL takes words of 2,046 bytes, and texts
            whose words have half a million.
    """

    position: int
    place: TextPlace
    words: Sequence[str]


class TextIndex(Protocol):
    """Keeps the texts of a store's events, each once, in the order of the store's stream."""

    def position(self) -> int:
        """Return the position of the newest text; 0 while there is none."""
        ...

    def add(self, texts: Sequence[IndexedText]) -> bool:
        """Add one or more texts in one transaction: the next ones behind `position`, in their order.

        Returns:
            False, and nothing is changed, when the first of them is there: somebody else has added it.
        """
        ...

    def find(self, phrases: Sequence[Phrase], session_id: str | None, limit: int) -> list[TextPlace]:
        """Return the places of the texts that hold every phrase, the best first.

        A text is the better, the oftener it says the words for its length; how that is weighed is the database's. Of
        texts that are alike the newest comes first.
        """
        ...


class Watch(Protocol):
    """Tells when a store may have new events; it is a context manager that stops watching."""

    def wait(self, seconds: float) -> None:
        """Return when something was saved since the last wait or since the watch began, or after some seconds."""
        ...

    def __enter__(self) -> Self:
        """Return itself."""
        ...

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        ...


def check_copied(copied: int, length: int, parent_id: str) -> None:
    """Refuse a copy of a log that has holes."""
    if copied != length:
        reason = f"of its first {length} events only {copied} are there"
        raise DamagedStoreError(reason, session_id=parent_id, seq=None)


def spaced(words: Sequence[str]) -> str:
    """Write words so that one of them, or several in a row, can be looked for with their spaces around them."""
    return f" {' '.join(words)} "
