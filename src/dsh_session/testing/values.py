"""Hypothesis strategies for what an event holds: JSON values, message contents, user messages, markers."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from dsh_session import lossless_json
from dsh_session.event import APPEND, Replace
from dsh_session.message import assistant_message, tool_result_message, user_message
from dsh_session.vocabulary import SURFACE_EVENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from dsh_session.event import SurfaceOp
    from dsh_session.types import AssistantMessageData, Block, SteeringMessageData, ToolResultData, UserMessage

PHRASES = ("", "ok", "größe 😀", "torn \ud83d", "<b> \u2028 \x85", "a longer phrase of several words")
_HARD_TEXTS = (
    "\ud83d",
    "\ud83d\ude00",
    "\ude00\ud83d",
    "\\ud83d",
    "\\\\ud83d\ud83d",
    "\u2028\x85",
    '"\\</script>',
    "\0",
)
_NUMBERS = (-0.0, 1.0, lossless_json.INT_MIN, lossless_json.INT_MAX, 2**53 + 1)
SOURCES: Sequence[Any] = (
    {"kind": "user"},
    {"kind": "plugin", "plugin": "compact", "compactionId": "c1"},
    {"kind": "plugin", "plugin": "notes"},
    {"kind": "session-reference", "sessionId": "s1"},
)
_TEXTS: Sequence[list[Block]] = [[{"type": "text", "text": text}] for text in PHRASES]
_IMAGE: Block = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
CONTENTS: Sequence[list[Block]] = (
    *_TEXTS,
    [],
    [_IMAGE, {"type": "text", "text": "below an image"}],
    [{"type": "text", "text": "one"}, {"type": "hologram", "depth": -0.0}, {"type": "text", "text": "two"}],
)
THOUGHTS: Sequence[list[Block]] = (
    *_TEXTS,
    [],
    [{"type": "reasoning", "text": "thinking"}],
    [{"type": "reasoning", "text": "thinking"}, {"type": "text", "text": "so"}],
)
_IDS = st.integers(0, 99).map("m{}".format)
_METAS: SearchStrategy[Any] = st.none() | st.sampled_from([{"exitCode": 1}, [], *_NUMBERS])
_PLACES = st.fixed_dictionaries({"turn": st.integers(1, 3), "step": st.integers(1, 3)})


def texts() -> SearchStrategy[str]:
    """Give any str, lone surrogates and what looks like their escapes among them."""
    return st.text(st.characters()) | st.sampled_from(_HARD_TEXTS)


def json_values(*, max_leaves: int = 12) -> SearchStrategy[Any]:
    """Give any lossless JSON value.

    Lone surrogates, ``-0.0`` and the ends of signed 64 bits are among them, since encoders lose them; so are values
    that are a hundred deep, which recursion may not bear, and wide ones, where what costs more than it should shows.

    Args:
        max_leaves: about how many values that are no containers it holds at most; a wide one holds 20 times as many.
    """
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(lossless_json.INT_MIN, lossless_json.INT_MAX)
        | st.sampled_from(_NUMBERS)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts()
    )
    bushes = st.recursive(
        leaves, lambda inner: st.lists(inner) | st.dictionaries(texts(), inner), max_leaves=max_leaves
    )
    deep = st.builds(_nested, leaves, st.integers(0, 100), st.booleans())
    wide = st.builds(_repeated, leaves, st.integers(0, 20 * max_leaves), st.booleans())
    return bushes | deep | wide


def foreign_values() -> SearchStrategy[Any]:
    """Give a value that is no lossless JSON: somewhere in it stands what an encoder would let pass as something else.

    A tuple becomes a list, a key that is no str becomes one, an int beyond 64 bits a float, and NaN is no JSON at all.
    """
    odd = st.sampled_from([(), (1, 2), {1: "a"}, {None: 1}, {1.5: [], "a": 1}, 2**63, -(2**63) - 1, b"ab", {1}])
    odd |= st.sampled_from([float("nan"), float("inf"), -float("inf")])
    return st.recursive(
        odd,
        lambda inner: (
            st.builds(lambda item, rest: [*rest, item, *rest], inner, st.lists(texts(), max_size=2))
            | st.builds(lambda key, item: {"sound": [], key: item}, texts(), inner)
        ),
        max_leaves=3,
    )


def contents() -> SearchStrategy[list[Block]]:
    """Give the content of a user's message or of a tool's output: text, images, kinds nobody knows, or nothing."""
    return st.sampled_from(CONTENTS).map(deepcopy)


def user_messages() -> SearchStrategy[UserMessage]:
    """Give the data of a ``user/message``: typed by the user, or said by a plugin or a reference in the user's place.

    The source of a compaction's checkpoint is among them: appended, such a message is injected context.
    """
    return st.builds(user_message, contents(), source=st.sampled_from(SOURCES).map(deepcopy), message_id=_IDS)


def messages(*, kinds: Collection[str] = SURFACE_EVENT_TYPES) -> SearchStrategy[tuple[str, Any]]:
    """Give the type and the data of a message of any kind, as `Session.append` takes them with a marker.

    Their content is empty, of many blocks, or of kinds nobody knows; calls come alone and in parallel; results are
    errors, have no content, or answer what nobody asked; a message may be interrupted, and say what it cost.

    Args:
        kinds: those to give, out of the four types that produce messages.
    """
    data: dict[str, SearchStrategy[Any]] = {
        "user/message": user_messages(),
        "steering/message": _steering_messages(),
        "assistant/message": _assistant_messages(),
        "tool/result": _tool_results(),
    }
    return st.one_of([st.tuples(st.just(kind), data[kind]) for kind in sorted(kinds)])


def surface_ops(ends: SearchStrategy[int] | None = None) -> SearchStrategy[SurfaceOp]:
    """Give any marker.

    Args:
        ends: what the ends of a replacement may be, nodes or not; small seqs when None.
    """
    ends = st.integers(0, 8) if ends is None else ends
    return st.just(APPEND) | st.builds(Replace, ends, ends)


def _steering_messages() -> SearchStrategy[SteeringMessageData]:
    return st.builds(lambda turn, message: {"turn": turn, "message": message}, st.integers(1, 3), user_messages())


@st.composite
def _assistant_messages(draw: DrawFn) -> AssistantMessageData:
    calls = [
        {"type": "tool-call", "id": f"call-{number}", "name": "run", "arguments": arguments}
        for number, arguments in enumerate(draw(st.lists(st.sampled_from(["{}", "", '{"a": 1}', "{torn"]), max_size=3)))
    ]
    thoughts = draw(st.sampled_from(THOUGHTS).map(deepcopy))
    return assistant_message(
        [*thoughts, *calls],
        provider="p",
        model="m",
        usage=draw(st.none() | st.just({"inputTokens": 7, "outputTokens": 3})),
        interrupted=draw(st.booleans()),
        message_id=draw(_IDS),
        **draw(_PLACES),
    )


@st.composite
def _tool_results(draw: DrawFn) -> ToolResultData:
    is_error = draw(st.booleans())
    return tool_result_message(
        draw(st.sampled_from(["call-0", "call-1", "call-of-nobody"])),
        draw(contents()),
        is_error=is_error,
        error={"code": "FAILED"} if is_error else None,
        meta=draw(_METAS),
        message_id=draw(_IDS),
        **draw(_PLACES),
    )


def _nested(value: Any, depth: int, is_list: bool) -> Any:
    for _ in range(depth):
        value = [value] if is_list else {"": value}
    return value


def _repeated(value: Any, count: int, is_list: bool) -> Any:
    return [value] * count if is_list else {str(key): value for key in range(count)}
