"""One compaction as a transaction in the log, without I/O.

`begin_compaction` checks the range and takes the lock; the caller has the range summarised however it likes; `commit`
lands the checkpoint, or `fail` frees the lock. Whatever happens after the lock is taken ends in exactly one
``compact/end``, and the surface changes in one event or not at all (ADR-0011).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

import attrs

from dsh_compact.checkpoint import compact_checkpoint_source, is_compact_checkpoint
from dsh_compact.errors import (
    BracketError,
    CompactionBusyError,
    CompactionClosedError,
    InvalidArgumentError,
    SummaryRejectedError,
    SurfaceChangedError,
)
from dsh_compact.ledger import SurfaceLedger
from dsh_compact.meter import TokenMeter
from dsh_compact.summary import INSTRUCTION, Summary, accepted_text, framed
from dsh_session import Replace, derive_message, user_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from dsh_compact.meter import Meter
    from dsh_session import Session, SessionEvent

Stability: TypeAlias = Literal["surface", "range"]
"""What must stand unchanged until the commit: the whole surface, or the compacted range alone."""


@attrs.frozen
class SummaryRequest:
    """What to have summarised.

    A request with this header and these messages begins as the session's own last request did, when the range begins
    at the head of the surface. So a provider's prefix cache still serves.

    Attributes:
        header: what the session's requests are built with (system text, tools, model), or None.
        events: the range's events, in surface order.
        instruction: what to tell the summarizer after them.
        tokens: what the range costs the model now; the framed summary must cost less.
    """

    header: Any
    events: Sequence[SessionEvent]
    instruction: str
    tokens: int

    @cached_property
    def messages(self) -> list[Any]:
        """The range's messages exactly as the model was sent them, and the instruction last.

        They are plain dicts, the caller's to change, and decoded when they are first asked for.
        """
        derived = map(derive_message, self.events)
        asking = user_message(self.instruction, source={"kind": "plugin", "plugin": "compact-instruction"})
        return [*(message for message in derived if message is not None), asking]


@attrs.frozen
class CompactionResult:
    """A landed compaction.

    Attributes:
        compaction_id: the attempt's id.
        checkpoint_seq: the checkpoint's seq, which is the new node.
        shadowed_seqs: the nodes that it replaced, in surface order.
        tokens_before: what these cost the model.
        tokens_after: what the checkpoint costs.
    """

    compaction_id: str
    checkpoint_seq: int
    shadowed_seqs: tuple[int, ...]
    tokens_before: int
    tokens_after: int


class Compaction:
    """A compaction between its begin and its end; `begin_compaction` makes it.

    Used as a context manager it fails itself when it is left without a commit, so that no lock stays behind.

    Attributes:
        id: the attempt's id, which all its records carry.
        request: what to have summarised.
        nodes: the seqs of the range, in surface order.
        is_open: whether it can still be committed or failed.
    """

    def __init__(
        self,
        session: Session,
        request: SummaryRequest,
        *,
        compaction_id: str,
        source_command_id: str | None,
        stability: Stability,
        meter: Meter,
        frame: Callable[[str], str],
    ) -> None:
        self.id = compaction_id
        self.request = request
        self.nodes = tuple(event.seq for event in request.events)
        self.is_open = True
        self._session = session
        self._command_id = source_command_id
        self._meter = meter
        self._frame = frame
        self._surface = session.surface.nodes if stability == "surface" else None
        self._turn = session.open_turn.turn
        self._start_data = session.append("compact/start", {**self._ids, "turn": self._turn}).encoded_data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self.is_open:
            self.fail(error or "left without a commit")

    def commit(self, answer: Summary | str) -> CompactionResult:
        """Land the checkpoint: the summary record, directly after it the checkpoint, and the end.

        Args:
            answer: the summary, or its text.

        Raises:
            SummaryRejectedError: the summary cannot stand for the range.
            SurfaceChangedError: what must stand unchanged does not.
            BracketError: the turn that the compaction began in is not the one that is open now.
            CompactionClosedError: it was committed or failed before, or another process has taken the session over.

            After any of them the compaction has failed: its end is in the log, and the surface is untouched.

        Cost: O(nodes of the range + size of the summary), and O(nodes) where the whole surface must stand.
        """
        self._require_open()
        try:
            return self._land(Summary.of(answer))
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException | str) -> None:
        """End the compaction without a checkpoint. The surface stays as it is.

        Raises:
            CompactionClosedError: it was committed or failed before.
        """
        self._require_open()
        self.is_open = False
        if self._lock() is not None:
            text = error if isinstance(error, str) else f"{type(error).__name__}: {error}".removesuffix(": ")
            self._session.append("compact/end", {**self._ids, "turn": self._turn, "error": {"message": text}})

    @property
    def _ids(self) -> dict[str, str]:
        ids = {"compactionId": self.id}
        return ids if self._command_id is None else {**ids, "sourceCommandId": self._command_id}

    def _land(self, summary: Summary) -> CompactionResult:
        text = accepted_text(summary)
        checkpoint = user_message(self._frame(text), source=compact_checkpoint_source(self.id, self._command_id))  # type: ignore[arg-type] # a CheckpointSource is a Source
        tokens = self._meter.estimate_message(checkpoint)
        if tokens >= self.request.tokens:
            raise SummaryRejectedError(
                f"framed, it costs {tokens} tokens and what it replaces {self.request.tokens}; it must cost less"
            )
        start = self._require_stable()
        session = self._session
        record = session.append("compact/summary", self._record(summary, text))
        sources = [start.seq, record.seq, *self.nodes]
        landed = session.append("user/message", checkpoint, Replace(self.nodes[0], self.nodes[-1]), sources)
        session.append("compact/end", {**self._ids, "turn": self._turn})
        self.is_open = False
        return CompactionResult(self.id, landed.seq, self.nodes, self.request.tokens, tokens)

    def _record(self, summary: Summary, text: str) -> dict[str, Any]:
        route = (self.request.header or {}).get("config") or {}
        blocks = [{"type": "text", "text": text}]
        record: dict[str, Any] = {**self._ids, "summary": blocks}
        if list(summary.content) != blocks:
            record["rawOutput"] = list(summary.content)
        record |= {
            "shadowedRange": {"start": self.nodes[0], "end": self.nodes[-1]},
            "shadowedSeqs": list(self.nodes),
            "shadowedTokenCount": self.request.tokens,
            "provider": summary.provider or route.get("provider") or "unknown",
            "model": summary.model or route.get("model") or "unknown",
        }
        if summary.max_tokens is not None:
            record["maxTokens"] = summary.max_tokens
        if summary.usage is not None:
            record["usage"] = summary.usage
        return record

    def _lock(self) -> SessionEvent | None:
        """Return this compaction's start while it holds the lock; a rebase may have moved it."""
        start = self._session.compaction_start
        return start if start is not None and start.encoded_data == self._start_data else None

    def _require_stable(self) -> SessionEvent:
        """Return the start, or refuse to go on from what is no longer as it was at the begin."""
        session = self._session
        start = self._lock()
        if start is None:
            raise CompactionClosedError(self.id)
        if session.open_turn.turn != self._turn:
            raise BracketError(
                f"turn {session.open_turn.turn!r} is open; the compaction began in turn {self._turn!r}",
                session.next_seq,
            )
        if self._surface is not None and self._surface != session.surface.nodes:
            raise SurfaceChangedError(sorted({*self._surface} ^ {*session.surface}))
        if self.request.events != _events_of(session, self.nodes[0], self.nodes[-1]):
            raise SurfaceChangedError(self.nodes)
        return start

    def _require_open(self) -> None:
        if not self.is_open:
            raise CompactionClosedError(self.id)


def begin_compaction(
    session: Session,
    start: int,
    end: int,
    *,
    stability: Stability | None = None,
    compaction_id: str | None = None,
    source_command_id: str | None = None,
    meter: Meter | None = None,
    instruction: str = INSTRUCTION,
    frame: Callable[[str], str] = framed,
) -> Compaction:
    """Check a range, take the lock in the log, and return what to have summarised.

    Args:
        session: the session; `SessionStore.save` makes what is appended here durable.
        start: the first node of the range.
        end: the last node, at or behind the first by surface position.
        stability: what must stand unchanged until the commit. When None, the whole surface inside a turn, where
            nothing else has a reason to change it; between turns the range alone, so that what is appended meanwhile
            survives behind the checkpoint.
        compaction_id: the attempt's id; a new UUID when None.
        source_command_id: the command that asked for it.
        meter: prices the range and the checkpoint; `TokenMeter` when None.
        instruction: what the summarizer is told, after the range's messages.
        frame: puts the summary's text into the checkpoint's words.

    Raises:
        CompactionBusyError: another compaction of the session is live.
        InvalidArgumentError: start or end is no node, or they stand in the other order, or a tool call is open
            across one of the range's ends, or the range is one checkpoint, which would become itself again.

    Cost: O(nodes of the range), and as `SurfaceLedger.of`.
    """
    for argument, name in (("compaction_id", compaction_id), ("source_command_id", source_command_id)):
        if name is not None and (type(name) is not str or not name):
            raise InvalidArgumentError(argument, f"{name!r} found; it is a non-empty str, or None")
    if stability not in (None, "surface", "range"):
        raise InvalidArgumentError("stability", f"{stability!r} found; it is 'surface', 'range' or None")
    if session.open_compaction is not None:
        raise CompactionBusyError(session.open_compaction)
    events = _events_of(session, start, end)
    if not events:
        raise InvalidArgumentError("start, end", f"{start}..{end} found; both are nodes of the surface, in its order")
    if len(events) == 1 and is_compact_checkpoint(events[0]):
        raise InvalidArgumentError("start, end", f"{start}..{end} is one checkpoint; there is nothing to compact in it")
    meter = meter or TokenMeter()
    ledger = SurfaceLedger.of(session.surface, meter)
    if not ledger.pairing.balanced_before(start):
        raise InvalidArgumentError("start", f"{start} found; a tool call is open across the cut before it")
    if not ledger.pairing.balanced_after(end):
        raise InvalidArgumentError("end", f"{end} found; a tool call is open across the cut after it")
    tokens = sum([ledger.tokens[event.seq] for event in events])
    return Compaction(
        session,
        SummaryRequest(session.request_header(), events, instruction, tokens),
        compaction_id=str(uuid4()) if compaction_id is None else compaction_id,
        source_command_id=source_command_id,
        stability=stability or ("range" if session.open_turn.turn is None else "surface"),
        meter=meter,
        frame=frame,
    )


def _events_of(session: Session, start: int, end: int) -> list[SessionEvent]:
    """Return the events of the nodes from start to end, or none when the two are no range of the surface."""
    surface = session.surface
    return surface.events(surface.span(start, end)) if start in surface and end in surface else []
