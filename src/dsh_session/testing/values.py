"""Hypothesis strategies for what an event holds: JSON values, message contents, user messages, markers."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from dsh_session import lossless_json
from dsh_session.event import APPEND, Replace
from dsh_session.message import user_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

    from dsh_session.event import SurfaceOp
    from dsh_session.message import Block, UserMessage

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


def texts() -> SearchStrategy[str]:
    """Give any str, lone surrogates and what looks like their escapes among them."""
    return st.text(st.characters()) | st.sampled_from(_HARD_TEXTS)


def json_values(max_leaves: int = 12) -> SearchStrategy[Any]:
    """Give any lossless JSON value: lone surrogates, ``-0.0`` and the ends of signed 64 bits among them.

    Args:
        max_leaves: about how many values that are no containers it holds at most.
    """
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(lossless_json.INT_MIN, lossless_json.INT_MAX)
        | st.sampled_from(_NUMBERS)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts()
    )
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(texts(), inner), max_leaves=max_leaves)


def contents() -> SearchStrategy[list[Block]]:
    """Give the content of a user's message or of a tool's output: text, images, kinds nobody knows, or nothing."""
    return st.sampled_from(CONTENTS).map(deepcopy)


def user_messages() -> SearchStrategy[UserMessage]:
    """Give the data of a ``user/message``: typed by the user, or said by a plugin or a reference in the user's place.

    The source of a compaction's checkpoint is among them: appended, such a message is injected context.
    """
    ids = st.integers(0, 99).map("m{}".format)
    return st.builds(user_message, contents(), source=st.sampled_from(SOURCES).map(deepcopy), message_id=ids)


def surface_ops(ends: SearchStrategy[int] | None = None) -> SearchStrategy[SurfaceOp]:
    """Give any marker.

    Args:
        ends: what the ends of a replacement may be, nodes or not; small seqs when None.
    """
    ends = st.integers(0, 8) if ends is None else ends
    return st.just(APPEND) | st.builds(Replace, ends, ends)
