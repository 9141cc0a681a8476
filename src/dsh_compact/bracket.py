"""The lock in the log: the bracket ``compact/start`` ... ``compact/end`` around one compaction attempt.

At most one bracket is live. It never crosses a turn boundary: inside a turn it carries the turn's number, between
turns null. A bracket that an older process left open lies before the newest ``session/end-seed``; it is stale and
blocks nothing.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from dsh_compact.checkpoint import is_compact_checkpoint
from dsh_compact.errors import BracketError, InvalidArgumentError
from dsh_session import COMPACT_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dsh_session import SessionEvent

BracketState: TypeAlias = Literal["none", "live", "stale"]

_TURN_BOUNDARIES: Final = frozenset({"turn/start", "turn/end"})
_MAX_TOKENS: Final = 2**53 - 1  # what every JSON reader holds exactly; token counts are for other programs too
_ABSENT: Final = object()


@attrs.frozen
class Bracket:
    """One compaction attempt that has started and not ended.

    Attributes:
        seq: its ``compact/start``.
        compaction_id: the attempt.
        source_command_id: the command that asked for it, or None.
        turn: the turn that it runs in, or None between turns.
        has_summary: whether its ``compact/summary`` is there.
        is_stale: whether a ``session/end-seed`` came after it.
    """

    seq: int
    compaction_id: Any
    source_command_id: Any
    turn: Any
    has_summary: bool = False
    is_stale: bool = False


@attrs.define
class BracketFold:
    """The state machine of a log's brackets: `check` decides, `apply` evolves.

    ``attrs.asdict`` writes it as plain JSON, and `restore` goes on from that.

    Attributes:
        turn: the number of the open turn, or None between turns.
        bracket: the newest bracket that has no end, or None.
    """

    turn: Any = None
    bracket: Bracket | None = None

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> BracketFold:
        """Make the fold that ``attrs.asdict`` gave."""
        bracket = state["bracket"]
        return cls(state["turn"], None if bracket is None else Bracket(**bracket))

    @property
    def live(self) -> Bracket | None:
        """The bracket that holds the lock, if one does."""
        return None if self.bracket is None or self.bracket.is_stale else self.bracket

    @property
    def state(self) -> BracketState:
        """Whether a bracket is live, or stale, or there is none."""
        if self.bracket is None:
            return "none"
        return "stale" if self.bracket.is_stale else "live"

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event of the log, whether `check` accepts it or not. Cost: O(size of a record's data)."""
        match COMPACT_RECORDS.get(event.type), event.type:
            case "start", _:
                data = _fields(event)
                self.bracket = Bracket(
                    event.seq, data.get("compactionId"), data.get("sourceCommandId"), data.get("turn")
                )
            case "summary", _ if self.bracket is not None:
                self.bracket = attrs.evolve(self.bracket, has_summary=True)
            case "end", _:
                self.bracket = None
            case None, "session/end-seed" if self.bracket is not None:
                self.bracket = attrs.evolve(self.bracket, is_stale=True)
            case None, "turn/start":
                self.turn = _fields(event).get("turn")
            case None, "turn/end":
                self.turn = None
            case _:
                pass

    def check(self, event: SessionEvent) -> None:
        """Refuse an event that may not come next, and change nothing.

        Raises:
            BracketError: it breaks a rule of brackets.

        Cost: O(1) for what is no record, checkpoint or turn boundary; else O(size of its data).
        """
        match COMPACT_RECORDS.get(event.type):
            case "start":
                self._check_start(event, _fields(event))
            case "summary":
                self._check_summary(event, _fields(event))
            case "end":
                self._check_end(event, _fields(event))
            case _ if event.type in _TURN_BOUNDARIES:
                if self.live is not None:
                    raise BracketError(f"{event.type} inside {_name(self.live)}, which must end first", event.seq)
            case _ if is_compact_checkpoint(event):
                self._check_member(event, event.data["source"])
            case _:
                pass

    def _check_start(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        _check_ids(event, data)
        if self.live is not None:
            raise BracketError(f"{event.type} inside {_name(self.live)}, which must end first", event.seq)
        self._check_turn(event, data, self.turn)

    def _check_summary(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        bracket = self._check_member(event, data)
        if bracket.has_summary:
            raise BracketError(f"a second summary inside {_name(bracket)}", event.seq)
        match data:
            case {"shadowedSeqs": [first, *_] as seqs, "shadowedRange": {"start": start, "end": end}}:
                if not (_is_same(start, first) and _is_same(end, seqs[-1])):
                    raise BracketError(
                        f"shadowedRange is {start!r}..{end!r}; it is the first and the last of shadowedSeqs,"
                        f" {first!r} and {seqs[-1]!r}",
                        event.seq,
                    )
            case _:
                raise BracketError("a summary has a shadowedRange and at least one of shadowedSeqs", event.seq)
        count = data.get("shadowedTokenCount")
        if type(count) is not int or not 0 <= count <= _MAX_TOKENS:
            raise BracketError(f"shadowedTokenCount is {count!r}; it is an int from 0 to {_MAX_TOKENS}", event.seq)

    def _check_end(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        bracket = self._check_member(event, data)
        self._check_turn(event, data, bracket.turn)
        if "error" not in data and not bracket.has_summary:
            raise BracketError(f"{_name(bracket)} ends without an error and without a summary", event.seq)

    def _check_member(self, event: SessionEvent, data: Mapping[str, Any]) -> Bracket:
        """Return the live bracket, to which the event must belong by its ids."""
        _check_ids(event, data)
        bracket = self.live
        if bracket is None:
            raise BracketError(f"{event.type} of compaction {data['compactionId']!r} outside its bracket", event.seq)
        ids = data["compactionId"], data.get("sourceCommandId")
        if ids != (bracket.compaction_id, bracket.source_command_id):
            raise BracketError(
                f"{event.type} has the compaction id and command id {ids!r} inside {_name(bracket)},"
                f" whose command id is {bracket.source_command_id!r}",
                event.seq,
            )
        return bracket

    def _check_turn(self, event: SessionEvent, data: Mapping[str, Any], turn: Any) -> None:
        found = data.get("turn", _ABSENT)
        if not _is_same(found, turn):
            shown = "absent" if found is _ABSENT else repr(found)
            raise BracketError(f"turn is {shown}; it is {turn!r}, the open turn or None between turns", event.seq)


def check_brackets(events: Iterable[SessionEvent], seed_length: int = 0) -> None:
    """Refuse a log whose compaction brackets are out of order.

    A bracket that is open at the end of the log is no fault: it may still be live.

    Args:
        events: the log, in seq order.
        seed_length: how many of the events were there before this process came to the log. Among them a turn may
            begin or end inside a bracket that was left open before a ``session/end-seed``: its process is gone.

    Raises:
        BracketError: ``seq`` is the first event that breaks a rule.
        InvalidArgumentError: ``seed_length`` is no int >= 0.

    Cost: O(events); of the seed, what the rules speak of is held in memory.
    """
    if type(seed_length) is not int or seed_length < 0:
        raise InvalidArgumentError("seed_length", f"{seed_length!r} found; it is an int >= 0")
    rest = iter(events)
    seed = list(filter(_is_ruled, islice(rest, seed_length)))
    abandoned = _abandoned(seed)
    fold = BracketFold()
    for event in chain(seed, filter(_is_ruled, rest)):
        is_excused = event.type in _TURN_BOUNDARIES and fold.live is not None and fold.live.seq in abandoned
        if not is_excused:
            fold.check(event)
        fold.apply(event)


def _is_ruled(event: SessionEvent) -> bool:
    return (
        event.type in COMPACT_RECORDS
        or event.type in _TURN_BOUNDARIES
        or event.type == "session/end-seed"
        or is_compact_checkpoint(event)
    )


def _abandoned(seed: Iterable[SessionEvent]) -> set[int]:
    """Return the seqs of the starts that an end-seed found open."""
    fold = BracketFold()
    abandoned = set()
    for event in seed:
        if event.type == "session/end-seed" and fold.live is not None:
            abandoned.add(fold.live.seq)
        fold.apply(event)
    return abandoned


def _fields(event: SessionEvent) -> Mapping[str, Any]:
    data = event.data
    return data if isinstance(data, dict) else {}


def _check_ids(event: SessionEvent, data: Mapping[str, Any]) -> None:
    for key in ("compactionId", "sourceCommandId") if "sourceCommandId" in data else ("compactionId",):
        value = data.get(key)
        if type(value) is not str or not value:
            raise BracketError(f"{event.type} has the {key} {value!r}; it is a non-empty str", event.seq)


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _name(bracket: Bracket) -> str:
    return f"the compaction {bracket.compaction_id!r} that started at seq {bracket.seq}"
