from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsh_projections.projection import replay
from dsh_projections.references.projector import ReferenceBudgetError, ReferenceProjector, tag_safe_json
from dsh_projections.testing import projection_test, session_logs
from dsh_session import (
    APPEND,
    SessionEvent,
    SessionHeader,
    assistant_message,
    lossless_json,
    tool_result_message,
    user_message,
)
from dsh_session.testing import LogBuilder, json_values, naive_surface

if TYPE_CHECKING:
    from collections.abc import Sequence

VECTORS = Path(__file__).parent / "vectors"
CASES = {case["name"]: case for case in json.loads((VECTORS / "reference.json").read_text("utf-8"))}
TAG_SAFE_CASES = {
    case["name"]: case for case in json.loads((VECTORS / "uri.json").read_text("utf-8")) if case["kind"] == "tagSafe"
}
TAG_SAFE_DIFFERENT = {"numbers": "a float is written as Python writes it: 1e21, and not 1e+21"}

HEADER = SessionHeader(id="s<1>", created_at=1, cwd="/w")
CHECKPOINT: Any = {"kind": "plugin", "plugin": "compact", "compactionId": "c"}
NOTHING_SAID = len('{"sessionId":"s","label":"s","cwd":null,"capturedThroughSeq":null,"conversation":[]}')


@attrs.frozen
class Said:
    """One message of a log, as an oracle sees it."""

    role: str
    text: str
    is_checkpoint: bool = False

    @property
    def item(self) -> dict[str, str]:
        return {"role": self.role, "text": self.text}


def log_of(conversation: Sequence[Said]) -> list[SessionEvent]:
    log = LogBuilder()
    for said in conversation:
        if said.role == "assistant":
            data: Any = assistant_message(said.text, turn=1, step=1, provider="p", model="m")
            log.append("assistant/message", data, APPEND)
        else:
            source = CHECKPOINT if said.is_checkpoint else None
            log.append("user/message", user_message(said.text, source=source), APPEND)
    return log.events


def naive_conversation(events: Sequence[SessionEvent]) -> list[Said]:
    """Read what the surface says from the wire form of its nodes."""
    conversation = []
    for seq in naive_surface(events).nodes:
        wire = events[seq].to_wire()
        kind, data = wire["type"], wire["data"]
        if kind == "tool/result":
            continue
        message = data.get("message", data)
        role = "assistant" if kind == "assistant/message" else "user"
        source = message.get("source", {"kind": "model"})
        is_checkpoint = source["kind"] == "plugin" and source["plugin"] == "compact"
        if source["kind"] in ("user", "model") or is_checkpoint:
            text = "\n".join(block["text"] for block in message["content"] if block["type"] == "text")
            conversation.append(Said(role, text, is_checkpoint))
    return [said for said in conversation if said.text]


def utf8_size(text: str) -> int:
    """Count bytes; a lone surrogate has three, as U+FFFD has."""
    return sum(3 if "\ud800" <= character <= "\udfff" else len(character.encode()) for character in text)


def json_size(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return utf8_size(text) + 3 * sum("\ud800" <= character <= "\udfff" for character in text)


def naive_shortened(original: str, target: int) -> tuple[str, int]:
    """Try every number of bytes to keep, half of them at either end, from the most to the least."""
    text = original.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    for kept in reversed(range(len(text))):
        head = text[: (kept + 1) // 2].decode(errors="ignore")
        tail = text[len(text) - kept // 2 :].decode(errors="ignore")
        omitted = len(text) - utf8_size(head + tail)
        shortened = f"{head}{tail}\n[\u2026 omitted {omitted} UTF-8 bytes \u2026]"
        if utf8_size(shortened) <= target:
            return shortened, omitted
    return "", len(text)


def naive_view(header: SessionHeader, events: Sequence[SessionEvent], max_bytes: int) -> tuple[Any, Any] | None:
    """Make a snapshot by the letter of the rules, weighing all of it again after every step."""
    conversation = naive_conversation(events)
    retained = list(conversation)
    omitted_of_retained: dict[int, int] = {}

    def data() -> dict[str, Any]:
        return {
            "sessionId": header.id,
            "label": header.id,
            "cwd": header.cwd,
            "capturedThroughSeq": len(events) - 1 if events else None,
            "conversation": [said.item for said in retained],
        }

    def excess() -> int:
        return json_size(data()) - max_bytes

    while excess() > 0 and (droppable := [said for said in retained[:-1] if not said.is_checkpoint]):
        del retained[next(at for at, said in enumerate(retained) if said is droppable[0])]
    dropped_bytes = sum(utf8_size(said.text) for said in conversation) - sum(utf8_size(said.text) for said in retained)
    originals = list(retained)
    while excess() > 0 and any(said.text for said in retained):
        sizes = [utf8_size(said.text) for said in retained]
        at = sizes.index(max(sizes))
        text, omitted_of_retained[at] = naive_shortened(originals[at].text, sizes[at] - excess())
        retained[at] = attrs.evolve(retained[at], text=text)
    if excess() > 0:
        return None
    omitted_bytes = dropped_bytes + sum(omitted_of_retained.values())
    stats = {
        "compacted": any(said.is_checkpoint for said in conversation),
        "originalMessages": len(conversation),
        "retainedMessages": len(retained),
        "omittedMessages": len(conversation) - len(retained),
        "omittedBytes": omitted_bytes,
        "truncated": omitted_bytes > 0,
    }
    return data(), stats


def outcome(projector: ReferenceProjector) -> tuple[Any, Any] | None:
    try:
        view = projector.view()
    except ReferenceBudgetError:
        return None
    return view.data, view.stats


def conversations() -> st.SearchStrategy[list[Said]]:
    """Give what was said: texts of all widths and escapes, long enough to be worth a notice, or not."""
    phrases = st.lists(
        st.sampled_from(["a", "<", '"', "\n", "é", "界", "😀", "\ud83d", "word "]), min_size=1, max_size=8
    )
    texts = st.builds(lambda phrase, times: "".join(phrase) * times, phrases, st.sampled_from([1, 4, 9]))
    return st.lists(
        st.builds(Said, st.just("user"), texts, st.booleans()) | st.builds(Said, st.just("assistant"), texts)
    )


@pytest.mark.parametrize("name", CASES)
def test_a_snapshot_is_that_of_the_original(name: str) -> None:
    """Every recorded session gives the recorded snapshot, or cannot fit where none was given."""
    case = CASES[name]
    header = SessionHeader.from_wire({"type": "session", **case["header"]})
    projector = ReferenceProjector(header, case["label"], case["maxBytes"])

    replay(projector, map(SessionEvent.from_wire, case["events"]))

    if case["expect"] is None:
        with pytest.raises(ReferenceBudgetError):
            projector.view()
        return
    view = projector.view()
    size = len(tag_safe_json(view.data).encode())
    assert case["expect"] == {"data": view.data, "stats": view.stats, "bytes": size}


@pytest.mark.parametrize("name", TAG_SAFE_CASES)
def test_tag_safe_json_is_that_of_the_original(name: str) -> None:
    """Every recorded value is written as recorded, but for the spelling of floats."""
    case = TAG_SAFE_CASES[name]

    written = tag_safe_json(case["value"])

    assert (name in TAG_SAFE_DIFFERENT) == (case["json"] != written)
    assert case["value"] == json.loads(written)


@settings(max_examples=60, deadline=None)
@given(json_values())
@example({"<": ["</x>", "<<"]})
def test_tag_safe_json_holds_no_tag_and_loses_nothing(value: Any) -> None:
    """No JSON that a snapshot is written in holds a ``<``, and it reads back as the same value."""
    written = tag_safe_json(value)

    assert "<" not in written
    assert lossless_json.encode(value) == lossless_json.encode(lossless_json.decode(written.encode()))


@settings(max_examples=60, deadline=None)
@given(conversations(), st.integers(0, 700))
@example([Said("user", "a" * 60, is_checkpoint=True)] * 4, 280)
def test_a_snapshot_follows_the_letter_of_the_rules(conversation: list[Said], room: int) -> None:
    """What is dropped, what is shortened and by how much is what a step-by-step reading of the rules comes to."""
    events = log_of(conversation)
    max_bytes = NOTHING_SAID + room

    projector = replay(ReferenceProjector(HEADER, max_bytes=max_bytes), events)

    assert naive_view(HEADER, events, max_bytes) == outcome(projector)


@settings(max_examples=40, deadline=None)
@given(session_logs(), st.integers(80, 600))
def test_any_log_gives_the_snapshot_of_its_surface(events: list[SessionEvent], max_bytes: int) -> None:
    """Only what the current surface says is in a snapshot, whatever else the log holds."""
    projector = replay(ReferenceProjector(HEADER, max_bytes=max_bytes), events)

    assert naive_view(HEADER, events, max_bytes) == outcome(projector)


test_the_projector_keeps_the_laws_of_projections = projection_test(
    partial(ReferenceProjector, HEADER), settings=settings(max_examples=25, deadline=None)
)


@settings(max_examples=60, deadline=None)
@given(conversations(), st.integers(0, 300))
def test_a_snapshot_fits_or_says_how_much_it_needs(conversation: list[Said], room: int) -> None:
    """A view is never larger than its budget, and a refusal names the very budget that would do."""
    events = log_of(conversation)
    max_bytes = NOTHING_SAID + room
    projector = replay(ReferenceProjector(HEADER, max_bytes=max_bytes), events)

    try:
        needed_bytes = json_size(projector.view().data)
    except ReferenceBudgetError as refusal:
        needed_bytes = refusal.needed_bytes
        lesser, least = (
            replay(ReferenceProjector(HEADER, max_bytes=size), events) for size in (needed_bytes - 1, needed_bytes)
        )
        assert outcome(lesser) is None
        assert outcome(least) is not None

    assert (needed_bytes <= max_bytes) == (outcome(projector) is not None)


def test_a_refusal_says_what_it_is_about() -> None:
    """A budget error carries the session, what its snapshot needs, and what was allowed."""
    header = SessionHeader(id="s", created_at=1)

    with pytest.raises(ReferenceBudgetError, match=r"takes 84 bytes at the least; 83 are allowed") as refusal:
        ReferenceProjector(header, max_bytes=NOTHING_SAID - 1).view()

    assert header.id == refusal.value.session_id
    assert refusal.value.needed_bytes == NOTHING_SAID
    assert refusal.value.max_bytes == NOTHING_SAID - 1


def test_a_text_shrinks_to_its_notice_and_then_to_nothing() -> None:
    """A text of which no character fits is left as its notice alone, and where that does not fit either, empty."""
    events = log_of([Said("user", "a" * 90)])
    notice = "\n[\u2026 omitted 90 UTF-8 bytes \u2026]"
    least = naive_view(HEADER, log_of([Said("user", "a")]), 10_000)
    room = json_size(least and least[0]) - 1

    shown = [
        replay(ReferenceProjector(HEADER, max_bytes=room + size), events).view().data["conversation"][0]["text"]
        for size in (json_size(notice) - 2, json_size(notice) - 3)
    ]

    expected = [notice, ""]
    assert expected == shown


def test_looking_changes_nothing() -> None:
    """A view that drops and shortens, and a caller who changes it, leave the projector as it was."""
    projector = replay(ReferenceProjector(HEADER, max_bytes=200), log_of([Said("user", "a" * 90)] * 3))
    state = projector.state()

    first = projector.view()
    kept = lossless_json.encode(first.data)
    first.data["conversation"].clear()

    assert first.stats["omittedBytes"] > 180
    assert kept == lossless_json.encode(projector.view().data)
    assert state == projector.state()


def test_a_session_is_called_by_its_id_unless_it_is_given_a_label() -> None:
    """The label of a snapshot is the reader's, empty if so wished, and else the id."""
    labels = [ReferenceProjector(HEADER, label).view().data["label"] for label in (None, "", "mine")]

    assert [HEADER.id, "", "mine"] == labels


def test_steering_text_and_joined_blocks_are_kept() -> None:
    """What a user says into a running turn is part of a snapshot, its text blocks joined with a newline."""
    log = LogBuilder()
    blocks: Any = [{"type": "text", "text": "stop"}, {"type": "image"}, {"type": "text", "text": "here"}]
    log.append("steering/message", {"turn": 1, "message": user_message(blocks)}, APPEND)

    view = replay(ReferenceProjector(HEADER), log.events).view()

    conversation = [{"role": "user", "text": "stop\nhere"}]
    assert conversation == view.data["conversation"]


def test_an_answer_of_an_older_log_is_kept() -> None:
    """An assistant's content that stands flat beside its turn, with no source, is read like any other."""
    log = LogBuilder()
    log.append("assistant/message", {"turn": 1, "step": 1, "content": [{"type": "text", "text": "hi"}]}, APPEND)

    view = replay(ReferenceProjector(HEADER), log.events).view()

    conversation = [{"role": "assistant", "text": "hi"}]
    assert conversation == view.data["conversation"]


def test_a_projector_holds_no_more_than_the_texts_of_current_nodes() -> None:
    """Neither a tool's output, nor reasoning, nor what a checkpoint has replaced is in the state."""
    log = LogBuilder()
    log.append("user/message", user_message("old question"), APPEND)
    thought: Any = [{"type": "reasoning", "text": "thought"}, {"type": "text", "text": "answer"}]
    log.append("assistant/message", assistant_message(thought, turn=1, step=1, provider="p", model="m"), APPEND)
    log.append("tool/result", tool_result_message("c", "output", turn=1, step=1), APPEND)
    log.replace("user/message", user_message("summary", source=CHECKPOINT), 0, 0)

    state = replay(ReferenceProjector(HEADER), log.events).state()

    texts = [text for _, _, text, _ in state["passages"]]
    expected = ["answer", "summary"]
    assert expected == texts
