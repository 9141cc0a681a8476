"""Search over what the human can see, in all sessions of a store (ADR-0014).

What the user and the model said is found, what was injected, and what tools put out; reasoning is not. Every text is
the append-origin event's own. So a message that a compaction has shadowed is found once, where it was said, and a
checkpoint or any other copy for the model is never found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import attrs

from dsh_projections.human_transcript import HumanTranscript
from dsh_projections.projection import APPEND_TOPICS, replay
from dsh_projections.runner import BATCH
from dsh_projections.search.snippet import Snippet, snippet_of
from dsh_projections.search.words import WORDS_VERSION, words_of
from dsh_session import SessionError
from dsh_session.storage.contract import IndexedText, TextPlace

if TYPE_CHECKING:
    from dsh_session import SessionEvent, SessionStore

HitKind: TypeAlias = Literal["user", "assistant", "tool", "context"]
"""Who speaks: the user, the model, a tool with its result, or what was injected in the user's place."""

MAX_QUERY_WORDS: Final = 100
"""How many words a query may have."""

_TERM: Final = re.compile(r'"([^"]*)|[^\s"]+')


class SearchQueryError(SessionError, ValueError):
    """A query cannot be searched for.

    Attributes:
        query: the query.
    """

    def __init__(self, reason: str, query: str) -> None:
        self.query = query
        super().__init__(f"query {query[:100]!r}: {reason}")


@attrs.frozen
class SearchHit:
    """A text that was found.

    Attributes:
        session_id: the session that it was said in. A fork has what it inherited as its own.
        seq: the event's seq.
        time: the event's time, in Unix milliseconds.
        kind: who speaks.
        is_current: whether the event is on the current surface, so that the model still sees it.
        snippet: the piece of the text where the query is first met.
    """

    session_id: str
    seq: int
    time: int
    kind: HitKind
    is_current: bool
    snippet: Snippet


class SessionSearch:
    """Finds texts by their words, in an index that is kept in the store's own database.

    Any number of processes may catch the index up; each text is indexed once.

    Args:
        store: the store.
        allow_plaintext: whether to index a store that is enciphered; the index holds its words in the clear.

    Raises:
        PlaintextIndexError: the store is enciphered, and that was not allowed.
    """

    def __init__(self, store: SessionStore, *, allow_plaintext: bool = False) -> None:
        self._store = store
        self._index = store.text_index(WORDS_VERSION, allow_plaintext=allow_plaintext)

    def catch_up(self) -> int:
        """Index everything that was saved since the last time, in batches of one transaction each.

        Returns:
            How many texts were indexed, those without a word included.

        Raises:
            StoreError: the database cannot do it, or a record cannot be read; every batch before is kept.
        """
        indexed = 0
        topics = sorted(APPEND_TOPICS)
        while found := self._store.notifications(self._index.position(), BATCH, topics):
            texts = [_indexed(position, event) for position, event in found]
            if self._index.add(texts):
                indexed += len(texts)
        return indexed

    def search(self, query: str, *, session_id: str | None = None, limit: int = 20) -> list[SearchHit]:
        """Return the texts that hold every word and phrase of a query, as far as the index was caught up.

        Args:
            query: words; those between double quotes stand one after the other. Signs part words and mean nothing
                else: ``src/app.py`` asks for the three words in a row.
            session_id: the session to search; every one when None.
            limit: how many to return at most, an int >= 1.

        Returns:
            The best first: those that say the words oftenest for their length, as the database weighs it; the newest
            first of those that are alike.

        Raises:
            SearchQueryError: the query has no word, or more than ``MAX_QUERY_WORDS``; or ``limit`` is no int >= 1.
            SessionNotFoundError: there is no session ``session_id``.
            StoreError: the database cannot do it.

        Cost: O(texts that hold the words), in the database; and for the hits, reading their events and loading their
        sessions.
        """
        phrases = _phrases(query)
        if type(limit) is not int or limit < 1:
            raise SearchQueryError(f"limit is {limit!r}; it is an int >= 1", query)
        if session_id is not None:
            self._store.header(session_id)
        places = self._index.find(phrases, session_id, limit)
        hits: dict[TextPlace, SearchHit] = {}
        for found_id in {place.session_id for place in places}:
            surface = self._store.load(found_id).surface
            by_seq = {place.seq: place for place in places if place.session_id == found_id}
            for event in self._store.log(found_id).events_at(by_seq):
                place = by_seq[event.seq]
                kind, text = _text(event)
                hits[place] = SearchHit(
                    found_id, event.seq, event.time, kind, event.seq in surface, snippet_of(text, phrases)
                )
        return [hits[place] for place in places]


def _phrases(query: str) -> list[list[str]]:
    terms = (words_of(match[1] or match[0]) for match in _TERM.finditer(query))
    phrases = [words for words in terms if words]
    count = sum(map(len, phrases))
    if not 1 <= count <= MAX_QUERY_WORDS:
        raise SearchQueryError(f"{count or 'no'} words; it has 1 to {MAX_QUERY_WORDS}", query)
    return phrases


def _indexed(position: int, event: SessionEvent) -> IndexedText:
    kind, text = _text(event)
    return IndexedText(position, TextPlace(event.session_id, event.seq, kind), words_of(text))


def _text(event: SessionEvent) -> tuple[HitKind, str]:
    """Return who speaks in an append-origin event, and what the human reads of it."""
    entry: Any = replay(HumanTranscript(), [event]).entries[0]
    return cast("HitKind", entry.role if entry.kind == "message" else entry.kind), entry.text
