"""Packed rows: what is packed, that a row gives its events back, and that a malformed row is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_session import InvalidEventError, NotJSONError, SessionError, SessionEvent, lossless_json
from dsh_session.interchange.chunk_rows import decode_storage_record, pack_chunk_runs, packed, row_to_wire
from dsh_session.testing import is_same_json

CASES = json.loads((Path(__file__).parent / "vectors" / "chunk_rows.json").read_bytes())
PACK_CASES = [case for case in CASES if case["kind"] == "pack"]
DECODE_CASES = [case for case in CASES if case["kind"] == "decode"]
DIFFERENCES = {
    "surface marker on a chunk": "a log-only event cannot carry a marker",
    "fractional time": "a time is an int",
    "boolean seq": "a seq is an int >= 0",
    "negative seq": "a seq is an int >= 0",
    "string time": "a time is an int",
    "last member seq is 2^53, yet float rounding lets it pass": "the bound is computed in ints",
    "numbers spelled as floats": "1.0 is a float, and no seq, time or gap",
}
SAFE = 2**53 - 1
ROW = {
    "type": "text-chunks",
    "seq0": 2,
    "time0": 9,
    "data": {"turn": 3, "step": 2, "index": 1, "dt": [], "texts": ["m"]},
}


def chunk(
    seq: int, chunk: Any, *, time: int = 0, turn: Any = 1, step: Any = 1, ignorable: bool = False
) -> SessionEvent:
    data = lossless_json.encode({"turn": turn, "step": step, "chunk": chunk})
    return SessionEvent("", seq, time, "assistant/chunk", data, ignorable=ignorable)


def text_run(texts: list[str], **where: Any) -> list[SessionEvent]:
    return [chunk(seq, {"type": "text-delta", "index": 0, "text": text}, **where) for seq, text in enumerate(texts)]


def unpacked(rows: list[dict[str, Any]]) -> list[SessionEvent]:
    return [event for row in rows for event in decode_storage_record(row)]


@st.composite
def chunk_logs(draw: st.DrawFn) -> list[SessionEvent]:
    """Give stream chunks that are often, but not always, of one block."""
    number = st.sampled_from([1, 1, 1, 1, 1.0, 0.0, -0.0, True, 1e16, 2**53, None])
    text = st.sampled_from(["", "a", "größe 😀", "\ud83d", "\ude00", "\u2028\x85\\ud83d", 7])
    deltas = [
        {"type": "text-delta", "index": 0, "text": ""},
        {"type": "reasoning-delta", "index": 0, "text": ""},
        {"type": "tool-call-delta", "index": 0, "id": "c1", "argumentsDelta": ""},
        {"type": "tool-call-delta", "index": 0, "id": "c1", "name": "bash", "argumentsDelta": ""},
        {"type": "tool-call-delta", "index": 0, "id": "\ud83d", "name": "", "argumentsDelta": ""},
        {"text": "", "index": 0, "type": "text-delta"},
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "", "\ud83d": 1},
    ]
    events: list[SessionEvent] = []
    seq, time = draw(st.sampled_from([0, SAFE - 4])), 0
    for _ in range(draw(st.integers(0, 4))):
        delta, turn, step, index = draw(st.tuples(st.sampled_from(deltas), number, number, number))
        for _ in range(draw(st.integers(1, 5))):
            piece = {key: draw(text) if value == "" and key != "name" else value for key, value in delta.items()}
            is_ignorable = draw(st.sampled_from([False] * 9 + [True]))
            events.append(chunk(seq, piece | {"index": index}, time=time, turn=turn, step=step, ignorable=is_ignorable))
            seq += draw(st.sampled_from([1] * 9 + [2]))
            time = draw(st.sampled_from([time + 3, time + 3, time - 1, SAFE, -SAFE, SAFE + 1]))
    return events


@pytest.mark.parametrize("case", PACK_CASES, ids=lambda case: case["name"])
def test_events_are_packed_as_the_original_packs_them(case: dict[str, Any]) -> None:
    """Events pack into the recorded rows, and the rows give the events back."""
    if case["name"] in DIFFERENCES:
        with pytest.raises(SessionError):
            list(map(SessionEvent.from_wire, case["events"]))
        return

    events = list(map(SessionEvent.from_wire, case["events"]))

    rows = pack_chunk_runs(events)

    assert case["rows"] == rows
    assert case["events"] == [event.to_wire() for event in unpacked(rows)]


@pytest.mark.parametrize("case", DECODE_CASES, ids=lambda case: case["name"])
def test_rows_are_read_as_the_original_reads_them(case: dict[str, Any]) -> None:
    """A record reads as the recorded events, or is refused where the original refuses it."""
    is_refused = "expectError" in case or case["name"] in DIFFERENCES
    if case["name"] == "passes through":  # the original lets pass what is no event at all
        is_refused = not isinstance(case["row"], dict) or "seq" not in case["row"]
    if is_refused:
        with pytest.raises((InvalidEventError, NotJSONError)):
            decode_storage_record(lossless_json.parse(case["rowText"]) if "rowText" in case else case["row"])
        return

    row = lossless_json.parse(case["rowText"]) if "rowText" in case else case["row"]

    assert case["events"] == [event.to_wire() for event in decode_storage_record(row)]


@given(chunk_logs())
def test_rows_give_their_events_back_with_the_same_bytes(events: list[SessionEvent]) -> None:
    """Whatever is packed, the records a writer makes of events read as equal events."""
    records = [
        record.to_wire() if isinstance(record, SessionEvent) else row_to_wire(record) for record in packed(events)
    ]

    assert events == unpacked(records)


@given(chunk_logs())
def test_packing_keeps_every_value(events: list[SessionEvent]) -> None:
    """A run may be packed whatever the order of its keys; each value and its type comes back all the same."""

    def in_one_order(event: SessionEvent) -> Any:
        return json.loads(json.dumps(event.to_wire(), sort_keys=True))

    back = unpacked(pack_chunk_runs(events))

    assert len(events) == len(back)
    assert all(is_same_json(in_one_order(one), in_one_order(other)) for one, other in zip(events, back, strict=True))


def naive_block(event: SessionEvent) -> str | None:
    """Say what a chunk shares with the others of its row, as JSON text; None of an event that has no place in a row."""
    match event.to_wire():
        case {"ignorable": True}:
            return None
        case {"time": time, "seq": seq, "data": {"turn": turn, "step": step, "chunk": {"index": index, **rest}}}:
            text = rest.pop("argumentsDelta" if rest["type"] == "tool-call-delta" else "text", None)
            keys = {"type", "id", "name"} if rest["type"] == "tool-call-delta" else {"type"}
            is_packable = (
                abs(time) <= SAFE
                and seq <= SAFE
                and all(type(number) in (int, float) for number in (turn, step, index))
                and rest["type"] in ("text-delta", "reasoning-delta", "tool-call-delta")
                and keys - {"name"} <= rest.keys() <= keys
                and all(isinstance(value, str) for value in (text, *rest.values()))
            )
            return json.dumps([turn, step, index, rest], sort_keys=True) if is_packable else None
    raise AssertionError(event)


@given(chunk_logs())
def test_a_row_holds_all_the_neighbours_it_can_and_three_at_least(events: list[SessionEvent]) -> None:
    """Events are grouped as a naive reading of the rule groups them."""
    groups: list[list[SessionEvent]] = []
    for event in events:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and naive_block(event) is not None
            and naive_block(last) == naive_block(event)
            and event.seq - last.seq == 1
            and abs(event.time - last.time) <= SAFE
        ):
            groups[-1].append(event)
        else:
            groups.append([event])
    expected = [size for group in groups for size in ([len(group)] if len(group) >= 3 else [1] * len(group))]

    assert expected == [len(decode_storage_record(row)) for row in pack_chunk_runs(events)]


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (0.0, -0.0)], ids=["an int and a float", "zero and negative zero"]
)
def test_numbers_that_are_equal_but_not_the_same_part_a_run(one: float, other: float) -> None:
    """Pieces whose turns are written differently are never one row, since it could keep but one of the two."""
    events = [
        chunk(seq, {"type": "text-delta", "index": 0, "text": "a"}, turn=one if seq < 3 else other) for seq in range(6)
    ]

    rows = pack_chunk_runs(events)

    assert [row["seq0"] for row in rows] == [0, 3]
    assert events == unpacked(rows)


def test_a_writer_leaves_a_chunk_with_another_key_order_alone() -> None:
    """A row cannot keep the order of keys, so a writer packs only chunks whose keys stand in the usual one."""
    events = [chunk(seq, {"text": "a", "index": 0, "type": "text-delta"}) for seq in range(3)]

    assert events == list(packed(events))
    assert len(pack_chunk_runs(events)) == 1


def test_records_come_as_soon_as_a_run_is_over() -> None:
    """Packing is a stream: it gives the records so far without waiting for the end of the events."""
    events = iter([*text_run(["a", "b", "c"]), SessionEvent("", 3, 0, "turn/end", b"{}"), *text_run(["never read"])])

    records = packed(events)

    assert row_to_wire(next(records))["seq0"] == 0  # type: ignore[arg-type] - the run comes first
    assert len(list(events)) == 1


def test_an_event_of_a_row_s_type_is_an_event() -> None:
    """Types are an open vocabulary: a record with a seq is an event, even when its type is that of a row."""
    event = SessionEvent("", 0, 0, "text-chunks", b"null")

    assert [event] == decode_storage_record(event.to_wire())


def test_a_row_s_events_belong_to_the_session_of_the_log() -> None:
    """Every event of a row takes the session id that it is read for."""
    assert {"s1"} == {event.session_id for event in decode_storage_record(ROW, "s1")}


@pytest.mark.parametrize("seq0", [2**53, True, None])
def test_a_malformed_row_names_its_rule_and_where_it_can_its_seq(seq0: Any) -> None:
    """A malformed row is an `InvalidEventError` that a caller can act on."""
    with pytest.raises(InvalidEventError, match="malformed text-chunks row") as caught:
        decode_storage_record(ROW | {"seq0": seq0})

    assert caught.value.rule == "chunk-row"
    assert (seq0 if type(seq0) is int else None) == caught.value.seq


@pytest.mark.parametrize("key", ["extra", "\ud83d"])
def test_a_row_with_an_unknown_key_is_refused(key: str) -> None:
    """A row holds exactly its keys, and one that cannot even be written in UTF-8 is refused like any other."""
    with pytest.raises(InvalidEventError, match="malformed text-chunks row"):
        decode_storage_record(ROW | {key: 1})


@pytest.mark.parametrize("turn", [float("inf"), 2**63])
def test_a_number_that_no_event_can_hold_is_refused(turn: float) -> None:
    """A row whose events would hold something that is not lossless JSON is refused as they would be."""
    with pytest.raises(NotJSONError):
        decode_storage_record(ROW | {"data": ROW["data"] | {"turn": turn}})  # type: ignore[operator] - it is a dict
