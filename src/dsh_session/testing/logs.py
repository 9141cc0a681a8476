"""Hypothesis strategies for whole logs, by moves that are played one after another, and for what may come next."""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from hypothesis import strategies as st

from dsh_session import lossless_json
from dsh_session.event import APPEND, Replace, SessionEvent
from dsh_session.message import assistant_message, message_of, tool_calls_of, tool_result_message, user_message
from dsh_session.testing.builder import LogBuilder
from dsh_session.testing.oracles import naive_surface
from dsh_session.testing.values import CONTENTS, PHRASES, SOURCES, THOUGHTS, json_values, user_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from dsh_session.message import Block, Source

T = TypeVar("T")

Move: TypeAlias = "Callable[[LogBuilder], object]"
"""One thing that may happen to a log. A move that does not apply to the log as it is does nothing."""


@cache
def log_moves() -> SearchStrategy[Move]:
    """Give one move of an ordinary session: a message, a boundary, a stream, a tool's work, a note, a replacement.

    A replacement names its range by surface position, so ranges are nested, repeated, single, whole, and sometimes
    numerically reversed.
    """
    at, span, either = range(6), (1, 2, 3, 1000), (False, True)
    return st.one_of(
        st.just(_rest),
        st.sampled_from([_begin_or_end_step, _begin_or_end_turn]),
        _moves(_say, content=CONTENTS, source=SOURCES, is_steering=either),
        _moves(_stream, text=PHRASES, count=(1, 2, 3)),
        _moves(_answer, content=THOUGHTS, call_count=(0, 1, 2), is_citing=either),
        _moves(_start_call, at=at),
        _moves(_give_result, content=CONTENTS, at=at, is_error=either),
        st.builds(partial, st.just(_note), event=_notes(), ignorable=st.booleans()),
        _moves(_rewrite, content=CONTENTS, source=SOURCES, span=span, at=at),
        _moves(_regenerate, content=THOUGHTS, span=span, at=at, keeps_calls=either),
        _moves(_rewrite_result, content=CONTENTS, at=at),
    )


@st.composite
def logs(  # noqa: D417 - Hypothesis passes draw
    draw: DrawFn, moves: SearchStrategy[Move] | None = None, *, max_moves: int = 24
) -> list[SessionEvent]:
    """Give a log that every reader must take: valid events in seq order, from 0, cut short anywhere.

    Args:
        moves: what may happen; those of `log_moves` when None. Join yours to them with ``|``.
        max_moves: how many moves are made at most. At least a third as many are, so that much happens in most logs;
            some of them do nothing, so logs shrink all the same.
    """
    log = LogBuilder()
    for move in draw(st.lists(log_moves() if moves is None else moves, min_size=max_moves // 3, max_size=max_moves)):
        move(log)
    return log.events


@st.composite
def candidates(draw: DrawFn, events: Sequence[SessionEvent]) -> SessionEvent:  # noqa: D417 - Hypothesis passes draw
    """Give an event that somebody might try to append to a log: right, or wrong in seq, marker or provenance.

    Args:
        events: the log, a valid one.
    """
    length = len(events)
    nodes = naive_surface(events).nodes
    known = [(event.type, event.data) for event in events if event.seq in nodes]
    kind, data = draw(st.sampled_from([*known, ("user/message", draw(user_messages())), ("turn/start", {"turn": 1})]))
    if "turn" in data and draw(st.booleans()):
        data["turn"] += 1
    ends = [*nodes, length]
    all_before = tuple(range(length))
    return SessionEvent(
        "",
        draw(st.sampled_from([length, length, length + 1, max(length - 1, 0)])),
        0,
        kind,
        lossless_json.encode(data),
        draw(st.sampled_from([APPEND, None, *(Replace(start, end) for start in ends for end in ends)])),
        draw(
            st.sampled_from([all_before, None, (), all_before[1:], (*all_before, length), all_before + all_before[:1]])
            | st.lists(st.integers(0, length + 1), max_size=3).map(tuple)
        ),
    )


def _notes() -> SearchStrategy[tuple[str, Any]]:
    route = {"provider": "p", "model": "m"}
    return st.one_of(
        st.sampled_from(PHRASES).map(lambda title: ("session/title", {"title": title})),
        st.sampled_from(PHRASES).map(
            lambda text: ("request/header", {"header": {"config": route, "system": text}, "reason": "initial"})
        ),
        st.just(("request/context", {**route, "contextWindow": 1000})),
        st.tuples(st.sampled_from(["todo/write", "unheard-of"]), json_values(max_leaves=3)),
    )


def _moves(act: Callable[..., object], **choices: Iterable[Any]) -> SearchStrategy[Move]:
    """Give an act with any of its choices: one draw a move, since logs are drawn by the thousand."""
    return st.sampled_from(
        [partial(act, **dict(zip(choices, picked, strict=True))) for picked in product(*choices.values())]
    )


def _rest(_: LogBuilder) -> None:
    """Do nothing: what every other move shrinks to."""


def _begin_or_end_turn(log: LogBuilder) -> None:
    place = _place(log)
    if _is_open(log, "step"):
        log.append("step/end", place)
    if _is_open(log, "turn"):
        log.append("turn/end", {"turn": place["turn"], "reason": {"kind": "completed"}})
    else:
        log.append("turn/start", {"turn": place["turn"] + 1})


def _begin_or_end_step(log: LogBuilder) -> None:
    """End the step, or begin one, in a turn that begins with it unless one is open."""
    if _is_open(log, "step"):
        log.append("step/end", _place(log))
        return
    if not _is_open(log, "turn"):
        _begin_or_end_turn(log)
    place = _place(log)
    log.append("step/start", {**place, "step": place["step"] + 1})


def _say(log: LogBuilder, content: Sequence[Block], source: Source, is_steering: bool) -> None:
    message = user_message(content, source=source, message_id=_next_id(log))
    if is_steering:
        log.append("steering/message", {"turn": _place(log)["turn"], "message": message}, APPEND)
    else:
        log.append("user/message", message, APPEND)


def _stream(log: LogBuilder, text: str, count: int) -> None:
    for _ in range(count):
        log.append("assistant/chunk", {**_place(log), "chunk": {"type": "text-delta", "index": 0, "text": text}})


def _answer(log: LogBuilder, content: Sequence[Block], call_count: int, is_citing: bool) -> None:
    calls = [
        {"type": "tool-call", "id": f"call-{len(log.events)}-{index}", "name": "run", "arguments": "{}"}
        for index in range(call_count)
    ]
    log.append(
        "assistant/message", _model_message(log, [*content, *calls]), APPEND, _uncited(log) if is_citing else None
    )


def _start_call(log: LogBuilder, at: int) -> None:
    for call_id in _pick(_unanswered(log), at, 1):
        log.append("tool/call", {**_place(log), "callId": call_id, "name": "run", "arguments": "{}"})


def _give_result(log: LogBuilder, at: int, content: Sequence[Block], is_error: bool) -> None:
    """Answer a call that is open, or else one that nobody made."""
    call_id = next(iter(_pick(_unanswered(log), at, 1)), "call-of-nobody")
    data = tool_result_message(call_id, content, is_error=is_error, message_id=_next_id(log), **_place(log))
    log.append("tool/result", data, APPEND)


def _note(log: LogBuilder, event: tuple[str, Any], ignorable: bool) -> None:
    log.append(*event, ignorable=ignorable)


def _rewrite(log: LogBuilder, at: int, span: int, content: Sequence[Block], source: Source) -> None:
    """Replace a range by a message: a checkpoint, when it has a checkpoint's source."""
    for start, end in _range(log, at, span):
        log.replace("user/message", user_message(content, source=source, message_id=_next_id(log)), start, end)


def _regenerate(log: LogBuilder, at: int, span: int, content: Sequence[Block], keeps_calls: bool) -> None:
    """Replace a range by an assistant message, which repeats the range's calls or orphans their results."""
    for start, end in _range(log, at, span):
        shadowed = log.nodes[log.nodes.index(start) : log.nodes.index(end) + 1]
        calls = [call for seq in shadowed for call in _calls(log.events[seq])] if keeps_calls else []
        log.replace("assistant/message", _model_message(log, [*content, *calls]), start, end)


def _rewrite_result(log: LogBuilder, at: int, content: Sequence[Block]) -> None:
    for seq in _pick([seq for seq in log.nodes if log.events[seq].type == "tool/result"], at, 1):
        data = log.events[seq].data
        data["message"]["content"][0]["content"] = content
        log.replace("tool/result", data, seq, seq)


def _is_open(log: LogBuilder, what: str) -> bool:
    boundaries = [event.type for event in log.events if event.type in {f"{what}/start", f"{what}/end"}]
    return boundaries[-1:] == [f"{what}/start"]


def _place(log: LogBuilder) -> dict[str, Any]:
    types = [event.type for event in log.events]
    return {"turn": types.count("turn/start"), "step": types.count("step/start")}


def _next_id(log: LogBuilder) -> str:
    return f"m{len(log.events)}"


def _model_message(log: LogBuilder, content: Sequence[Block]) -> Any:
    return assistant_message(content, provider="p", model="m", message_id=_next_id(log), **_place(log))


def _uncited(log: LogBuilder) -> list[int]:
    """The chunks since the last assistant message; none means that the provider streamed nothing."""
    seqs: list[int] = []
    for event in log.events:
        if event.type == "assistant/chunk":
            seqs.append(event.seq)
        elif event.type == "assistant/message":
            seqs.clear()
    return seqs


def _calls(event: SessionEvent) -> list[Any]:
    return tool_calls_of(message_of(event.type, event.data)) if event.type == "assistant/message" else []


def _unanswered(log: LogBuilder) -> list[str]:
    results = [message_of(event.type, event.data) for event in log.events if event.type == "tool/result"]
    answered = {result["source"]["callId"] for result in results}
    asked = dict.fromkeys(call["id"] for event in log.events for call in _calls(event))
    return [call_id for call_id in asked if call_id not in answered]


def _pick(items: Sequence[T], at: int, count: int) -> Sequence[T]:
    """Return some neighbours, the first of them at a place that is counted round and round."""
    first = at % max(len(items), 1)
    return items[first : first + count]


def _range(log: LogBuilder, at: int, span: int) -> Iterator[tuple[int, int]]:
    picked = _pick(log.nodes, at, span)
    if picked:
        yield picked[0], picked[-1]
