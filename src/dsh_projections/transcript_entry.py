"""The entries of a human transcript."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

CallStatus: TypeAlias = Literal["open", "done", "failed", "interrupted"]


class TranscriptCall(msgspec.Struct, frozen=True):
    """A tool call that a model asked for.

    Attributes:
        call_id: the id that its result names.
        name: the tool.
        arguments: the model's JSON text, unparsed.
        status: ``open`` until its result is there; ``done`` or ``failed`` by that result; ``interrupted`` when its turn
            ended without one.
        result_seq: the seq of its result's event, or None.
    """

    call_id: str
    name: str
    arguments: str
    status: CallStatus = "open"
    result_seq: int | None = None


class MessageEntry(msgspec.Struct, frozen=True, tag_field="kind", tag="message"):
    """What the user typed or a model answered.

    Attributes:
        seq: the event's seq.
        time: the event's time, in Unix milliseconds.
        role: who speaks.
        text: the text blocks, joined by newlines.
        reasoning: the reasoning blocks, joined by newlines.
        calls: the tool calls that the message asks for.
        attachments: the blocks of other kinds, such as images, as they are.
        is_interrupted: whether the model's stream was cut before its end.
    """

    kind: ClassVar[str] = "message"
    seq: int
    time: int
    role: Literal["user", "assistant"]
    text: str
    reasoning: str = ""
    calls: tuple[TranscriptCall, ...] = ()
    attachments: tuple[Any, ...] = ()
    is_interrupted: bool = False


class ToolEntry(msgspec.Struct, frozen=True, tag_field="kind", tag="tool"):
    """A tool's result, joined with the call that asked for it.

    Attributes:
        seq: the result event's seq.
        time: its time, in Unix milliseconds.
        call_id: the call that it answers.
        name: the tool, or None when no message that was read asked for this call.
        arguments: the model's JSON text, or None likewise.
        text: the text blocks of the result, joined by newlines.
        is_error: whether the tool failed.
        attachments: the blocks of other kinds, such as images, as they are.
    """

    kind: ClassVar[str] = "tool"
    seq: int
    time: int
    call_id: str
    name: str | None
    arguments: str | None
    text: str
    is_error: bool
    attachments: tuple[Any, ...] = ()


class ContextEntry(msgspec.Struct, frozen=True, tag_field="kind", tag="context"):
    """A message that the user did not type: a plugin put it in the user's place.

    Attributes:
        seq: the event's seq.
        time: the event's time, in Unix milliseconds.
        source: the source's kind, or the plugin's name.
        text: the text blocks, joined by newlines.
        attachments: the blocks of other kinds, as they are.
    """

    kind: ClassVar[str] = "context"
    seq: int
    time: int
    source: str
    text: str
    attachments: tuple[Any, ...] = ()


class CompactionEntry(msgspec.Struct, frozen=True, tag_field="kind", tag="compaction"):
    """A landed compaction: the point where the model stopped seeing earlier context. The human still sees it.

    Attributes:
        seq: the checkpoint's seq.
        time: the checkpoint's time, in Unix milliseconds.
        summary: the summary's text; None while the record that the checkpoint cites was not read.
        replaced_count: how many nodes were replaced, or None likewise.
        token_count: what they cost the model, in tokens, or None likewise.
        summary_seq: the record that all of this is from, the newest that the checkpoint cites; None likewise.
    """

    kind: ClassVar[str] = "compaction"
    seq: int
    time: int
    summary: str | None = None
    replaced_count: int | None = None
    token_count: int | None = None
    summary_seq: int | None = None


TranscriptEntry: TypeAlias = MessageEntry | ToolEntry | ContextEntry | CompactionEntry
