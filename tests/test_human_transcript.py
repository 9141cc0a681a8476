from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from dsh_compact import compact_checkpoint_source
from dsh_compact.testing import FRAME
from dsh_projections import (
    CompactionEntry,
    ContextEntry,
    HumanTranscript,
    MessageEntry,
    ToolEntry,
    TranscriptCall,
    replay,
    testing,
)
from dsh_projections.testing import check_entries_keep_identity, check_nothing_said_is_lost, session_logs
from dsh_session import (
    APPEND,
    Append,
    Replace,
    SessionEvent,
    assistant_message,
    is_append_surface_event,
    is_replacement_surface_event,
    tool_result_message,
    user_message,
)
from dsh_session.testing import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = {
    case["name"]: case for case in json.loads((Path(__file__).parent / "vectors/transcript.json").read_text("utf-8"))
}
IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw0="}
SUMMARY_TYPES = {"compact/summary", "compaction/summary"}


def entries_of(events: Sequence[SessionEvent]) -> list[Any]:
    return list(replay(HumanTranscript(), events).entries)


def call(call_id: str, name: str = "run") -> Any:
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": f'{{"of": "{name}"}}'}


def ask(log: LogBuilder, *blocks: Any, interrupted: bool = False) -> SessionEvent:
    data = assistant_message(blocks, turn=1, step=1, provider="p", model="m", interrupted=interrupted)
    return log.append("assistant/message", data, APPEND)


def answer(log: LogBuilder, call_id: str, content: Any = "done", *, is_error: bool = False) -> SessionEvent:
    return log.append("tool/result", tool_result_message(call_id, content, turn=1, step=1, is_error=is_error), APPEND)


def summarise(log: LogBuilder, text: str, shadowed: list[int], spelling: str = "compact") -> SessionEvent:
    record = {"summary": [{"type": "text", "text": text}], "shadowedSeqs": shadowed, "shadowedTokenCount": 42}
    return log.append(f"{spelling}/summary", record)


def land(log: LogBuilder, start: int, end: int, *more: int, source: Any = None) -> SessionEvent:
    """Land a checkpoint that cites ``more`` beside what it shadows."""
    nodes = log.nodes
    shadowed = nodes[nodes.index(start) : nodes.index(end) + 1]
    message = user_message(f"{FRAME} framed", source=source or compact_checkpoint_source("c"))
    return log.append("user/message", message, Replace(start, end), [*more, *shadowed])


def calls_seen(entries: Any) -> list[tuple[str, str, int | None]]:
    return [(c.call_id, c.status, c.result_seq) for e in entries if e.kind == "message" for c in e.calls]


def tools_seen(entries: Any) -> list[tuple[str, str | None, str]]:
    return [(entry.call_id, entry.name, entry.text) for entry in entries if entry.kind == "tool"]


def naive_entries(events: Sequence[SessionEvent]) -> list[Any]:
    """Make the whole transcript the obvious way, looking through the log for each entry anew."""
    said = [event for event in events if isinstance(event.surface_op, Append)]
    entries: list[Any] = []
    for event in events:
        if event in said:
            entries.append(naive_entry(event, said, events))
        elif isinstance(event.surface_op, Replace) and event.type == "user/message":
            source = event.data["source"]
            if (source["kind"], source.get("plugin")) == ("plugin", "compact"):
                entries.append(naive_compaction(event, events))
    return entries


def naive_entry(event: SessionEvent, said: list[SessionEvent], events: Sequence[SessionEvent]) -> Any:
    data = event.data
    message = data.get("message", data)
    content = message["content"]
    match event.type, message.get("source"):
        case "assistant/message", _:
            return MessageEntry(
                event.seq,
                event.time,
                "assistant",
                naive_text(content, "text"),
                naive_text(content, "reasoning"),
                tuple(naive_call(event, block, said, events) for block in content if block["type"] == "tool-call"),
                naive_rest(content),
                data.get("interrupted", False),
            )
        case "tool/result", {"callId": call_id}:
            asked = [block for earlier in said if earlier.seq < event.seq for block in naive_calls(earlier, call_id)]
            name, arguments = (asked[-1]["name"], asked[-1]["arguments"]) if asked else (None, None)
            output = content[0]["content"]
            text, is_error = naive_text(output, "text"), content[0]["isError"]
            return ToolEntry(event.seq, event.time, call_id, name, arguments, text, is_error, naive_rest(output))
        case _, {"kind": "user"}:
            text = naive_text(content, "text")
            return MessageEntry(event.seq, event.time, "user", text, attachments=naive_rest(content))
        case _, {"kind": kind, **more}:
            text = naive_text(content, "text")
            return ContextEntry(event.seq, event.time, more.get("plugin", kind), text, naive_rest(content))


def naive_call(event: SessionEvent, block: Any, said: list[SessionEvent], events: Sequence[SessionEvent]) -> Any:
    later = [other for other in said if other.seq > event.seq]
    askers = [other.seq for other in later if naive_calls(other, block["id"])]
    results = [
        other
        for other in later
        if other.type == "tool/result"
        and other.data["message"]["source"]["callId"] == block["id"]
        and other.seq < min(askers, default=len(events))
    ]
    call = TranscriptCall(block["id"], block["name"], block["arguments"])
    if results:
        is_error = results[0].data["message"]["content"][0]["isError"]
        return TranscriptCall(call.call_id, call.name, call.arguments, "failed" if is_error else "done", results[0].seq)
    is_over = any(other.type in {"turn/start", "turn/end"} for other in events[event.seq :])
    return TranscriptCall(call.call_id, call.name, call.arguments, "interrupted" if is_over else "open")


def naive_compaction(event: SessionEvent, events: Sequence[SessionEvent]) -> Any:
    for seq in sorted(event.source_event_seqs or (), reverse=True):
        if events[seq].type in SUMMARY_TYPES:
            record = events[seq].data
            text = naive_text(record["summary"], "text")
            return CompactionEntry(
                event.seq, event.time, text, len(record["shadowedSeqs"]), record["shadowedTokenCount"], seq
            )
    return CompactionEntry(event.seq, event.time)


def naive_calls(event: SessionEvent, call_id: str) -> list[Any]:
    if event.type != "assistant/message":
        return []
    content = event.data.get("message", event.data)["content"]
    return [block for block in content if block["type"] == "tool-call" and block["id"] == call_id]


def naive_text(content: Any, kind: str) -> str:
    return "\n".join(block["text"] for block in content if block["type"] == kind)


def naive_rest(content: Any) -> tuple[Any, ...]:
    return tuple(block for block in content if block["type"] not in {"text", "reasoning", "tool-call"})


@pytest.mark.parametrize("name", CASES)
def test_the_recorded_entries_are_ours(name: str) -> None:
    """An entry stands where the original says so; it tells one kind of message where ours tells three."""
    events = [SessionEvent.from_wire(wire) for wire in CASES[name]["events"]]
    expected = [(place["seq"], place["kind"] == "compaction") for place in CASES[name]["expect"]]
    assert expected == [(entry.seq, entry.kind == "compaction") for entry in entries_of(events)]


@settings(max_examples=40, deadline=None)
@given(session_logs(max_moves=24))
def test_the_transcript_is_what_a_search_of_the_log_for_each_entry_gives(events: list[SessionEvent]) -> None:
    """Every part of every entry, its calls' results and its compaction's summary included, is where it should be."""
    assert naive_entries(events) == entries_of(events)


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_nothing_that_was_said_is_lost(events: list[SessionEvent]) -> None:
    """However often a log is compacted, pruned and rewritten, every append-origin event keeps its entry."""
    check_nothing_said_is_lost(HumanTranscript, events)


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_an_entry_that_did_not_change_is_the_same_object(events: list[SessionEvent]) -> None:
    """An event makes no copy of an entry that it does not change."""
    check_entries_keep_identity(HumanTranscript, events)


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_the_model_s_copies_never_show(events: list[SessionEvent]) -> None:
    """Taking every replacement but the checkpoints out of what is read changes no entry; no framed text shows."""
    entries = entries_of(events)
    silent = [
        event
        for event in events
        if is_replacement_surface_event(event)
        and not (event.type == "user/message" and event.data["source"].get("plugin") == "compact")
    ]
    assert entries == entries_of([event for event in events if event not in silent])
    assert FRAME not in repr(entries)


@pytest.mark.parametrize(
    "topic", ["log:assistant/chunk", "log:tool/call", "replace:tool/result", "replace:assistant/message"]
)
def test_what_makes_no_entry_is_not_read(topic: str) -> None:
    """A replay passes over the stream, the records of starts, and the model's copies, which are most of a log."""
    assert HumanTranscript.topics is not None
    assert topic not in HumanTranscript.topics


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_summaries_are_absent_until_they_are_read(events: list[SessionEvent]) -> None:
    """Without its summaries a log gives compactions without text, and with them read late the same as in order."""
    late = [event for event in events if event.type in SUMMARY_TYPES]
    without = [event for event in events if event.type not in SUMMARY_TYPES]
    # when
    transcript = replay(HumanTranscript(), without)
    compactions = [entry for entry in transcript.entries if isinstance(entry, CompactionEntry)]
    # then
    assert compactions == [CompactionEntry(entry.seq, entry.time) for entry in compactions]
    # when
    replay(transcript, late)
    # then
    assert entries_of(events) == transcript.entries


def test_a_result_joins_its_call_and_an_error_is_told_apart() -> None:
    """A call is open until its result is there, which says whether it is done or failed."""
    log = LogBuilder()
    asked = ask(log, {"type": "text", "text": "let me look"}, call("a", "read"), call("b", "write"), call("c"))
    done = answer(log, "a", [{"type": "text", "text": "one"}, IMAGE, {"type": "text", "text": "two"}])
    failed = answer(log, "b", "no such file", is_error=True)
    expected = [
        MessageEntry(
            asked.seq,
            asked.time,
            "assistant",
            "let me look",
            calls=(
                TranscriptCall("a", "read", '{"of": "read"}', "done", done.seq),
                TranscriptCall("b", "write", '{"of": "write"}', "failed", failed.seq),
                TranscriptCall("c", "run", '{"of": "run"}', "open", None),
            ),
        ),
        ToolEntry(done.seq, done.time, "a", "read", '{"of": "read"}', "one\ntwo", is_error=False, attachments=(IMAGE,)),
        ToolEntry(failed.seq, failed.time, "b", "write", '{"of": "write"}', "no such file", is_error=True),
    ]
    testing.given(HumanTranscript).when(*log.events).then(expected)


@pytest.mark.parametrize("boundary", ["turn/start", "turn/end"])
def test_a_call_is_interrupted_when_its_turn_is_over(boundary: str) -> None:
    """At the turn's end, or at the next turn's start after a crash, what is open stays without its result."""
    log = LogBuilder()
    ask(log, call("a"), call("b"))
    answered = answer(log, "a")
    log.append(boundary, {"turn": 1})
    expected = [("a", "done", answered.seq), ("b", "interrupted", None)]
    testing.given(HumanTranscript, log.events).then(expected, seen=calls_seen)


def test_a_result_that_comes_after_its_turn_still_settles_its_call() -> None:
    """A late result turns an interrupted call into a failed or done one."""
    log = LogBuilder()
    ask(log, call("a"))
    log.append("turn/end", {"turn": 1})
    late = answer(log, "a", is_error=True)
    testing.given(HumanTranscript, log.events).then([("a", "failed", late.seq)], seen=calls_seen)


def test_a_call_id_that_is_used_again_joins_its_newest_call() -> None:
    """The result after the second asking is that one's, and the first keeps its own."""
    log = LogBuilder()
    ask(log, call("a", "first"))
    one = answer(log, "a", "one")
    ask(log, call("a", "second"))
    two = answer(log, "a", "two")
    example = testing.given(HumanTranscript, log.events)
    example.then([("a", "done", one.seq), ("a", "done", two.seq)], seen=calls_seen)
    example.then([("a", "first", "one"), ("a", "second", "two")], seen=tools_seen)


def test_a_call_s_first_result_decides() -> None:
    """A second result has an entry of its own, and does not change what the call came to."""
    log = LogBuilder()
    ask(log, call("a"))
    first = answer(log, "a", "one")
    answer(log, "a", "two", is_error=True)
    example = testing.given(HumanTranscript, log.events)
    example.then([("a", "done", first.seq)], seen=calls_seen)
    example.then([("a", "run", "one"), ("a", "run", "two")], seen=tools_seen)


def test_a_result_without_a_known_call_has_no_name() -> None:
    """In a window, or a damaged log, the result shows and the tool's name is left open."""
    log = LogBuilder()
    answer(log, "nobody", "text")
    testing.given(HumanTranscript, log.events).then([("nobody", None, "text")], seen=tools_seen)


def test_a_call_from_before_a_window_can_be_recalled() -> None:
    """A window's result without its call has the name and arguments of the recorded start, once that is recalled."""
    log = LogBuilder()
    started = log.append("tool/call", {"turn": 1, "step": 1, "callId": "a", "name": "run", "arguments": "{}"})
    result = answer(log, "a")
    window = HumanTranscript()
    window.recall(started)
    window.apply(result)
    assert tools_seen(window.entries) == [("a", "run", "done")]
    assert window.entries[0].arguments == "{}"


def test_a_summary_from_before_a_window_can_be_recalled() -> None:
    """It is told by the checkpoint that cites it."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    record = summarise(log, "they met", [0])
    checkpoint = land(log, 0, 0, record.seq)
    window = HumanTranscript()
    window.recall(record)
    window.apply(checkpoint)
    assert [CompactionEntry(checkpoint.seq, checkpoint.time, "they met", 1, 42, record.seq)] == window.entries


def test_a_result_keeps_its_call_when_both_are_shadowed() -> None:
    """A compaction of the call and its result leaves both entries as they were."""
    log = LogBuilder()
    ask(log, call("a"))
    answered = answer(log, "a")
    land(log, 0, answered.seq)
    example = testing.given(HumanTranscript, log.events)
    example.then([("a", "done", answered.seq)], seen=calls_seen)
    example.then(["message", "tool", "compaction"], seen=lambda entries: [entry.kind for entry in entries])


def test_a_pruned_result_and_a_regenerated_reply_show_as_they_were() -> None:
    """What the model is sent in their place is not what was said."""
    log = LogBuilder()
    ask(log, {"type": "text", "text": "first"}, call("a"))
    result = answer(log, "a", "long output")
    pruned = result.data
    pruned["message"]["content"][0]["content"] = [{"type": "text", "text": "…"}]
    before = entries_of(log.events)
    log.replace("tool/result", pruned, result.seq, result.seq)
    log.replace("assistant/message", assistant_message("second", turn=1, step=1, provider="p", model="m"), 0, 0)
    log.replace("user/message", user_message("third", source={"kind": "plugin", "plugin": "other"}), 3, 3)
    testing.given(HumanTranscript, log.events).then(before)


def test_reasoning_stands_apart_from_text_and_attachments_are_kept() -> None:
    """Blocks of one kind are joined by newlines; what is neither text nor reasoning nor a call is kept verbatim."""
    log = LogBuilder()
    unknown = {"type": "hologram", "depth": 3}
    said = ask(
        log,
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "so"},
        unknown,
        {"type": "reasoning", "text": "aha"},
        {"type": "text", "text": "there"},
        interrupted=True,
    )
    typed = log.append("user/message", user_message([IMAGE, {"type": "text", "text": "see"}]), APPEND)
    expected = [
        MessageEntry(
            said.seq,
            said.time,
            "assistant",
            "so\nthere",
            "hm\naha",
            attachments=(unknown,),
            is_interrupted=True,
        ),
        MessageEntry(typed.seq, typed.time, "user", "see", attachments=(IMAGE,)),
    ]
    testing.given(HumanTranscript, log.events).then(expected)


def test_steering_is_what_the_user_says() -> None:
    """What was said into a running turn stands like any other message of the user."""
    log = LogBuilder()
    said = log.append("steering/message", {"turn": 1, "message": user_message("wait")}, APPEND)
    testing.given(HumanTranscript, log.events).then([MessageEntry(said.seq, said.time, "user", "wait")])


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"kind": "plugin", "plugin": "notes"}, "notes"),
        ({"kind": "session-reference", "sessionId": "s"}, "session-reference"),
        ({"kind": "plugin", "plugin": 7}, "plugin"),
        (compact_checkpoint_source("c"), "compact"),
    ],
)
def test_what_a_plugin_says_is_context(source: Any, name: str) -> None:
    """It is told apart from what the user typed; the source of a checkpoint, appended, makes it no boundary."""
    log = LogBuilder()
    said = log.append("user/message", user_message([IMAGE, {"type": "text", "text": "see"}], source=source), APPEND)
    testing.given(HumanTranscript, log.events).then([ContextEntry(said.seq, said.time, name, "see", (IMAGE,))])


@pytest.mark.parametrize("spelling", ["compact", "compaction"])
def test_a_compaction_tells_what_its_record_says(spelling: str) -> None:
    """Summary, count and tokens come from the record that the checkpoint cites, in either spelling."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    record = summarise(log, "they met", [0], spelling)
    checkpoint = land(log, 0, 0, record.seq)
    expected = CompactionEntry(checkpoint.seq, checkpoint.time, "they met", 1, 42, record.seq)
    testing.given(HumanTranscript, log.events).then(expected, seen=lambda entries: entries[-1])


def test_an_older_checkpoint_without_ids_and_record_is_a_compaction_all_the_same() -> None:
    """Its source has the marker alone, and what it came to is not known."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    checkpoint = land(log, 0, 0, source={"kind": "plugin", "plugin": "compact"})
    expected = CompactionEntry(checkpoint.seq, checkpoint.time)
    testing.given(HumanTranscript, log.events).then(expected, seen=lambda entries: entries[-1])


def cited_again() -> tuple[LogBuilder, SessionEvent, SessionEvent]:
    """A log whose three checkpoints cite an older summary, and the last of them a newer one too; and these two."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    old = summarise(log, "old", [0])
    first = land(log, 0, 0, old.seq)
    again = land(log, first.seq, first.seq, old.seq)
    new = summarise(log, "new", [again.seq])
    land(log, again.seq, again.seq, old.seq, new.seq)
    return log, old, new


def test_a_summary_may_be_cited_again() -> None:
    """Every checkpoint that cites a summary tells it, and one that cites two tells the newer."""
    log, _, _ = cited_again()
    testing.given(HumanTranscript, log.events).then(
        ["old", "old", "new"], seen=lambda entries: [entry.summary for entry in entries[1:]]
    )


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["oldest first", "newest first"])
def test_summaries_that_are_read_late_go_to_their_compactions(order: slice) -> None:
    """Whichever page of a log is read first, each compaction tells the newest of its summaries that is there."""
    log, old, new = cited_again()
    late = [old, new][order]
    without = [event for event in log.events if event not in late]
    # when
    transcript = replay(HumanTranscript(), without)
    seen = []
    for record in late:
        transcript.apply(record)
        seen.append([entry.summary for entry in transcript.entries[1:]])  # type: ignore[union-attr] # all compactions
    # then
    assert seen == [["old", "old", "old"] if late[0] is old else [None, None, "new"], ["old", "old", "new"]]


@pytest.mark.parametrize(
    "record",
    [None, [], {}, {"summary": "text"}, {"summary": [{"text": "x"}]}, {"summary": [], "shadowedTokenCount": "many"}],
)
def test_a_summary_of_another_shape_is_as_good_as_none(record: Any) -> None:
    """Nobody checks a record's shape at append, so a transcript must bear any."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    summary = log.append("compact/summary", record)
    checkpoint = land(log, 0, 0, summary.seq)
    expected = CompactionEntry(checkpoint.seq, checkpoint.time)
    testing.given(HumanTranscript, log.events).then(expected, seen=lambda entries: entries[-1])


@pytest.mark.parametrize(
    ("blocks", "text"),
    [([{"type": "text", "text": "one"}, IMAGE, {"type": "text", "text": "two"}], "one\ntwo"), ([{"type": "text"}], "")],
)
def test_a_summary_tells_what_it_has(blocks: Any, text: str) -> None:
    """Only its text shows; counts that it lacks are left open."""
    log = LogBuilder()
    log.append("user/message", user_message("hello"), APPEND)
    summary = log.append("compact/summary", {"summary": blocks})
    checkpoint = land(log, 0, 0, summary.seq)
    expected = CompactionEntry(checkpoint.seq, checkpoint.time, text, summary_seq=summary.seq)
    testing.given(HumanTranscript, log.events).then(expected, seen=lambda entries: entries[-1])


def test_the_flat_messages_of_older_logs_are_read() -> None:
    """Logs of early 2026-07 keep a user's message without id, and a model's and a tool's content beside the turn."""
    log = LogBuilder()
    place = {"turn": 1, "step": 1}
    text = [{"type": "text", "text": "hello"}]
    log.append("user/message", {"role": "user", "source": {"kind": "user"}, "content": text}, APPEND)
    log.append("assistant/message", {**place, "content": [*text, call("a")]}, APPEND)
    result = log.append("tool/result", {**place, "callId": "a", "content": text, "isError": True}, APPEND)
    example = testing.given(HumanTranscript, log.events)
    example.then([("a", "failed", result.seq)], seen=calls_seen)
    example.then(["hello"] * 3, seen=lambda entries: [entry.text for entry in entries])


def test_compacted_n_times_there_are_n_rows_and_nothing_is_gone() -> None:
    """Each compaction of everything adds one row, and the conversation stands as if there had been none."""
    log = LogBuilder()
    for number in range(5):
        log.append("user/message", user_message(f"word {number}"), APPEND)
        land(log, log.nodes[0], log.nodes[-1])
    entries = entries_of(log.events)
    assert [f"word {number}" for number in range(5)] == [e.text for e in entries if e.kind == "message"]
    assert sum(entry.kind == "compaction" for entry in entries) == 5
    assert len(entries) == 5 + sum(map(is_append_surface_event, log.events))
