"""Hypothesis strategies for what may happen to a log: moves, which are played one after another."""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from hypothesis import strategies as st

from dsh_session.event import APPEND, Replace
from dsh_session.message import assistant_message, message_of, tool_calls_of, tool_result_message, user_message
from dsh_session.testing.values import CONTENTS, PHRASES, SOURCES, THOUGHTS, json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hypothesis.strategies import SearchStrategy

    from dsh_session.event import SessionEvent
    from dsh_session.testing.builder import LogBuilder
    from dsh_session.types import Block, Source

T = TypeVar("T")

_AT: Final = range(6)
"""Places among nodes, calls or results, counted round and round."""

_TEXT: Final = {"type": "text-delta", "index": 0}
_STREAMED: Final[Sequence[Sequence[dict[str, Any]]]] = (
    [_TEXT],
    [_TEXT, {**_TEXT, "index": 1}],
    [{"type": "reasoning-delta", "index": 0}, _TEXT],
    [{"type": "tool-call-delta", "index": 0, "id": "call-0"}, {"type": "tool-call-delta", "index": 0, "id": "call-1"}],
)
"""The blocks of a stream, by what all pieces of one have in common."""

Move: TypeAlias = "Callable[[LogBuilder], object]"
"""One thing that may happen to a log. A move that does not apply to the log as it is does nothing."""


@cache
def log_moves() -> SearchStrategy[Move]:
    """Give one move of an ordinary session: a message, a boundary, a stream, a tool's work, a note, a replacement."""
    return st.one_of(
        st.just(_rest),
        st.sampled_from([_begin_or_end_step, _begin_or_end_turn]),
        _moves(_stream, text=PHRASES, count=(1, 2, 3), blocks=_STREAMED),
        message_moves(),
        _moves(_start_call, at=_AT),
        st.builds(partial, st.just(_note), event=_notes(), ignorable=st.booleans()),
        replacement_moves(),
    )


@cache
def message_moves() -> SearchStrategy[Move]:
    """Give one message that is appended: of the user or in the user's place, into a turn, of the model, of a tool.

    A message of the model cites what was streamed since the last one, or nothing, and asks for calls, alone and in
    parallel; now and then it has no content at all. A tool's answers one of these, in any order, or a call that nobody
    made.
    """
    either = (False, True)
    return st.one_of(
        _moves(_say, content=CONTENTS, source=SOURCES, is_steering=either),
        _moves(_answer, content=(*THOUGHTS, ()), call_count=(0, 1, 2), is_citing=either),
        _moves(_give_result, content=CONTENTS, at=_AT, is_error=either),
    )


@cache
def replacement_moves() -> SearchStrategy[Move]:
    """Give one replacement: of a range by a message of anybody, of an answer by another one, of a result's content.

    A range is named by surface position: it is one node, some, or the whole surface; it is nested where it holds an
    older replacement, repeated where it is one, and numerically reversed where one stands at its head. Some are a
    compaction's checkpoint by their source, and some are another plugin's, which no reader may take for one.
    """
    span = (1, 2, 3, 1000)
    return st.one_of(
        _moves(_rewrite, content=CONTENTS, source=SOURCES, span=span, at=_AT),
        _moves(_regenerate, content=THOUGHTS, span=span, at=_AT, keeps_calls=(False, True)),
        _moves(_rewrite_result, content=CONTENTS, at=_AT),
        _moves(_rewrite_newest, content=CONTENTS, source=SOURCES, span=(1, 2)),
    )


def turn_moves(*, max_rounds: int = 2) -> SearchStrategy[Move]:
    """Give one whole turn: what the user says, rounds of tool calls, and an answer.

    A round asks for up to three calls at once, whose results come in the order of asking or the other way round. Some
    come late, when the turn has ended, so that they stand behind another turn; some never come.

    Args:
        max_rounds: how many rounds of calls there are at most.
    """
    fates = st.sampled_from(["answered", "answered", "late", "missing"])
    rounds = st.lists(st.lists(fates, min_size=1, max_size=3), max_size=max_rounds)
    return st.builds(
        partial,
        st.just(_take_turn),
        content=st.sampled_from(CONTENTS),
        rounds=rounds,
        is_reversed=st.booleans(),
        is_streaming=st.booleans(),
    )


@cache
def irregular_moves() -> SearchStrategy[Move]:
    """Give a move that readers must bear: a call id used again, a second result, a cut stream, an older flat shape."""
    either = (False, True)
    return st.one_of(
        _moves(_ask_again, at=_AT, is_twice=either, is_interrupted=either),
        _moves(_answer_again, at=_AT, is_error=either),
        _moves(_say_flat, text=PHRASES),
        _moves(_ask_flat, text=PHRASES),
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


def _stream(log: LogBuilder, text: str, count: int, blocks: Sequence[dict[str, Any]]) -> None:
    """Stream some pieces of each block, one block right behind another."""
    for block in blocks:
        key = "argumentsDelta" if "id" in block else "text"
        for _ in range(count):
            log.append("assistant/chunk", {**_place(log), "chunk": {**block, key: text}})


def _answer(log: LogBuilder, content: Sequence[Block], call_count: int, is_citing: bool) -> None:
    calls = [_call(f"call-{len(log.events)}-{index}", "run") for index in range(call_count)]
    log.append(
        "assistant/message", _model_message(log, [*content, *calls]), APPEND, _uncited(log) if is_citing else None
    )


def _start_call(log: LogBuilder, at: int) -> None:
    for call_id in _pick(_unanswered(log), at, 1):
        log.append("tool/call", {**_place(log), "callId": call_id, "name": "run", "arguments": "{}"})


def _give_result(log: LogBuilder, at: int, content: Sequence[Block], is_error: bool) -> None:
    """Answer a call that is open, or else one that nobody made."""
    call_id = next(iter(_pick(_unanswered(log), at, 1)), "call-of-nobody")
    _answer_call(log, call_id, content, is_error)


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


def _rewrite_newest(log: LogBuilder, content: Sequence[Block], source: Source, span: int) -> None:
    """Replace the newest replacement, alone or with the node behind it."""
    newest = max((seq for seq in log.nodes if isinstance(log.events[seq].surface_op, Replace)), default=None)
    if newest is not None:
        _rewrite(log, log.nodes.index(newest), span, content, source)


def _rewrite_result(log: LogBuilder, at: int, content: Sequence[Block]) -> None:
    for seq in _pick([seq for seq in log.nodes if log.events[seq].type == "tool/result"], at, 1):
        data = log.events[seq].data
        data["message"]["content"][0]["content"] = content
        log.replace("tool/result", data, seq, seq)


def _take_turn(
    log: LogBuilder, content: Sequence[Block], rounds: Sequence[Sequence[str]], is_reversed: bool, is_streaming: bool
) -> None:
    if _is_open(log, "turn"):
        _begin_or_end_turn(log)
    _say(log, content, {"kind": "user"}, is_steering=False)
    _begin_or_end_step(log)
    late: list[str] = []
    for fates in rounds:
        _answer(log, (), len(fates), is_citing=True)
        asked = [call["id"] for call in _calls(log.events[-1])]
        for call_id in asked:
            log.append("tool/call", {**_place(log), "callId": call_id, "name": "run", "arguments": "{}"})
        fate_of = dict(zip(asked, fates, strict=True))
        for call_id in reversed(asked) if is_reversed else asked:
            if fate_of[call_id] == "answered":
                _answer_call(log, call_id)
        late += [call_id for call_id in asked if fate_of[call_id] == "late"]
        _begin_or_end_step(log)
        _begin_or_end_step(log)
    if is_streaming:
        _stream(log, "ok", 2, _STREAMED[0])
    _answer(log, [{"type": "text", "text": "ok"}], 0, is_citing=True)
    _begin_or_end_turn(log)
    for call_id in late:
        _answer_call(log, call_id)


def _answer_call(log: LogBuilder, call_id: str, content: Sequence[Block] = (), is_error: bool = False) -> None:
    data = tool_result_message(call_id, content, is_error=is_error, message_id=_next_id(log), **_place(log))
    log.append("tool/result", data, APPEND)


def _ask_again(log: LogBuilder, at: int, is_twice: bool, is_interrupted: bool) -> None:
    for call_id in _pick(_asked(log), at, 1):
        calls: list[Any] = [_call(call_id, "again"), _call(call_id, "twice")]
        message_id = f"m{len(log.events)}"
        data = assistant_message(
            calls[: 1 + is_twice],
            turn=1,
            step=1,
            provider="p",
            model="m",
            interrupted=is_interrupted,
            message_id=message_id,
        )
        log.append("assistant/message", data, APPEND)


def _answer_again(log: LogBuilder, at: int, is_error: bool) -> None:
    for call_id in _pick(_asked(log), at, 1):
        _answer_call(log, call_id, [{"type": "text", "text": "again"}], is_error)


def _say_flat(log: LogBuilder, text: str) -> None:
    data = {"role": "user", "source": {"kind": "user"}, "content": [{"type": "text", "text": text}]}
    log.append("user/message", data, APPEND)


def _ask_flat(log: LogBuilder, text: str) -> None:
    content = [{"type": "text", "text": text}, _call(f"call-{len(log.events)}", "flat")]
    log.append("assistant/message", {"turn": 1, "step": 1, "content": content}, APPEND)


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


def _call(call_id: str, name: str) -> Block:
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": "{}"}


def _asked(log: LogBuilder) -> list[str]:
    """Every call id that was ever asked for, answered or not, in the order of first asking."""
    return list(dict.fromkeys(call["id"] for event in log.events for call in _calls(event)))


def _unanswered(log: LogBuilder) -> list[str]:
    results = [message_of(event.type, event.data) for event in log.events if event.type == "tool/result"]
    answered = {result["source"]["callId"] for result in results}
    return [call_id for call_id in _asked(log) if call_id not in answered]


def _pick(items: Sequence[T], at: int, count: int) -> Sequence[T]:
    """Return some neighbours, the first of them at a place that is counted round and round."""
    first = at % max(len(items), 1)
    return items[first : first + count]


def _range(log: LogBuilder, at: int, span: int) -> Iterator[tuple[int, int]]:
    picked = _pick(log.nodes, at, span)
    if picked:
        yield picked[0], picked[-1]
