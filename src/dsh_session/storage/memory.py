"""Sessions in this process: events, tracked states and the words of texts."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from eventsourcing.persistence import IntegrityError, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder, POPOFactory

from dsh_session.storage.contract import check_copied, spaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsh_session.storage.contract import Guard, IndexedText, Phrase, Row, TextPlace


class MemoryRecorder(POPOApplicationRecorder):
    """Keeps sessions in this process."""

    def __init__(self) -> None:
        super().__init__()
        self._tracker = MemoryTracker()
        self._text_indexes: dict[int, MemoryTextIndex] = defaultdict(MemoryTextIndex)

    def create_table(self) -> None:
        """Do nothing: there is no table."""

    def insert_after(self, originator_id: str, rows: Iterable[Row], after: int) -> None:
        """Insert rows behind version ``after``."""
        drawn = [StoredEvent(originator_id, *row) for row in rows]
        with self._database_lock:
            if after >= 0 and after not in self._versions(originator_id):
                raise IntegrityError(f"no version {after} to follow")
            self.insert_events(drawn)

    def insert_fork(self, originator_id: str, parent_id: str, length: int, rows: Sequence[Row]) -> None:
        """Insert a new originator that begins as a parent does."""
        with self._database_lock:
            copied = self.select_rows(parent_id, 1, length + 1, desc=False, limit=-1)
            check_copied(len(copied), length, parent_id)
            self.insert_after(originator_id, [rows[0], *copied, *rows[1:]], after=-1)

    def select_rows(self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int) -> list[Row]:
        """Return the rows with versions from ``start`` to below ``stop``."""
        with self._database_lock:
            return [
                self._row(originator_id, version) for version in self._range(originator_id, start, stop, desc, limit)
            ]

    def select_topics(
        self, originator_id: str, start: int, stop: int, *, desc: bool, limit: int, topics: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return versions and topics without the states."""
        with self._database_lock:
            versions = self._range(originator_id, start, stop, desc, -1)
            found = (self._row(originator_id, version)[:2] for version in versions)
            wanted = (row for row in found if not topics or row[1] in topics)
            return list(islice(wanted, limit if limit >= 0 else None))

    def select_versions(self, originator_id: str, versions: Sequence[int]) -> list[Row]:
        """Return the rows of some versions."""
        with self._database_lock:
            known = self._versions(originator_id)
            return [self._row(originator_id, version) for version in versions if version in known]

    def max_version(self, originator_id: str) -> int | None:
        """Return the newest version of an originator."""
        with self._database_lock:
            return len(self._versions(originator_id)) - 1 if self._versions(originator_id) else None

    def select_originators(self, after: str, limit: int) -> list[str]:
        """Return originator ids above ``after``."""
        with self._database_lock:
            return sorted(name for name, versions in self._stored_events_index.items() if versions and name > after)[
                :limit
            ]

    def watch(self) -> None:
        """Return None: nobody else can insert."""

    def tracker(self, guard: Guard) -> MemoryTracker:  # noqa: ARG002 - no database, no errors of one
        """Return where the states of tracked projections are kept."""
        return self._tracker

    def text_index(self, guard: Guard, version: int) -> MemoryTextIndex:  # noqa: ARG002 - as above
        """Return where the words of texts are kept."""
        return self._text_indexes[version]

    def _versions(self, originator_id: str) -> Mapping[int, int]:
        return self._stored_events_index.get(originator_id, {})

    def _range(self, originator_id: str, start: int, stop: int, desc: bool, limit: int) -> Sequence[int]:
        versions = range(max(start, 0), min(stop, len(self._versions(originator_id))))
        ordered = versions[::-1] if desc else versions
        return ordered[:limit] if limit >= 0 else ordered

    def _row(self, originator_id: str, version: int) -> Row:
        stored = self._stored_events[self._versions(originator_id)[version]]
        return version, stored.topic, stored.state


class MemoryFactory(POPOFactory):
    """Makes the recorders of a store in memory."""

    def application_recorder(self) -> MemoryRecorder:
        """Make the recorder of events."""
        return MemoryRecorder()


class MemoryTracker:
    """Keeps states in this process."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, int, dict[str, bytes]]] = {}
        self._lock = Lock()

    def position(self, name: str, version: int) -> int:
        """Return the position."""
        with self._lock:
            return self._of(name, version)[0]

    def states(self, name: str, version: int, session_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the states of some sessions."""
        with self._lock:
            states = self._of(name, version)[1]
            return {session_id: states[session_id] for session_id in session_ids if session_id in states}

    def all_states(self, name: str, version: int) -> list[tuple[str, bytes]]:
        """Return every session's state."""
        with self._lock:
            return sorted(self._of(name, version)[1].items())

    def move(self, name: str, version: int, before: int, after: int, states: Mapping[str, bytes]) -> bool:
        """Move the position and the states."""
        with self._lock:
            position, kept = self._of(name, version)
            if position != before:
                return False
            kept.update(states)
            self._kept[name] = (version, after, kept)
            return True

    def _of(self, name: str, version: int) -> tuple[int, dict[str, bytes]]:
        known, position, states = self._kept.get(name, (version, 0, {}))
        return (position, states) if known == version else (0, {})


class MemoryTextIndex:
    """Keeps texts in this process, and looks through all of them."""

    def __init__(self) -> None:
        self._texts: list[tuple[int, TextPlace, str]] = []
        self._lock = Lock()

    def position(self) -> int:
        """Return the position of the newest text."""
        with self._lock:
            return self._newest()

    def add(self, texts: Sequence[IndexedText]) -> bool:
        """Add texts behind `position`."""
        with self._lock:
            if texts[0].position <= self._newest():
                return False
            self._texts += [(text.position, text.place, spaced(text.words)) for text in texts]
            return True

    def find(self, phrases: Sequence[Phrase], session_id: str | None, limit: int) -> list[TextPlace]:
        """Return the places of the texts that hold every phrase. Cost: O(size of all texts)."""
        together = [spaced(phrase) for phrase in phrases]
        with self._lock:
            texts = tuple(self._texts)
        found = []
        for position, place, words in texts:
            if session_id in (None, place.session_id) and all(phrase in words for phrase in together):
                said = words.split()
                share = sum(said.count(word) for phrase in phrases for word in phrase) / len(said)
                found.append((share, position, place))
        return [place for *_, place in sorted(found, reverse=True)[:limit]]

    def _newest(self) -> int:
        return self._texts[-1][0] if self._texts else 0
