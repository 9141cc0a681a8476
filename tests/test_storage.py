"""How an event and a header stand in a row, and what a row that cannot be read gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from eventsourcing.compressor import ZlibCompressor
from eventsourcing.persistence import JSONTranscoder, StoredEvent
from eventsourcing.utils import Environment
from hypothesis import given, settings

from dsh_session import (
    APPEND,
    DamagedStoreError,
    Replace,
    SessionEvent,
    SessionHeader,
    StoreError,
    user_message,
)
from dsh_session.storage.mapper import SessionMapper
from dsh_session.testing import logs
from stored import TinyCipher, owned, say

if TYPE_CHECKING:
    from dsh_session import SessionStore

MAPPER = SessionMapper(JSONTranscoder())
SEALED = SessionMapper(JSONTranscoder(), ZlibCompressor(), TinyCipher(Environment("", {"CIPHER_KEY": "k"})))
HEADER = SessionHeader(
    id="ö'; --",
    created_at=5,
    cwd="/torn-\ud83d",
    parent_session="p",
    seed_length=3,
    origin={"by": [1, 1.0]},
    delegation_depth=2,
    agent_preset=["x"],
)


@settings(max_examples=30, deadline=None)
@given(logs())
def test_an_event_comes_back_out_of_its_row(events: list[SessionEvent]) -> None:
    """Whatever an event holds, its row gives it back, sealed or not, and says marker, type and place by itself."""
    for event in owned(events, "s"):
        for mapper in (MAPPER, SEALED):
            # when
            row = mapper.to_stored_event(event)
            # then
            marker = {"Append": "append", "Replace": "replace", "NoneType": "log"}[type(event.surface_op).__name__]
            assert ("s", event.seq + 1, f"{marker}:{event.type}") == (
                row.originator_id,
                row.originator_version,
                row.topic,
            )
            assert event == mapper.to_domain_event(row)


@pytest.mark.parametrize("mapper", [MAPPER, SEALED])
@pytest.mark.parametrize("header", [HEADER, SessionHeader(id="s", created_at=0)])
def test_a_header_comes_back_out_of_its_row(mapper: SessionMapper, header: SessionHeader) -> None:
    """Whatever a header holds, its row gives it back; it is version 0 of its session, and has a topic of its own."""
    # when
    row = mapper.to_stored_event(header)
    # then
    assert (header.id, 0, "session") == (row.originator_id, row.originator_version, row.topic)
    assert header == mapper.to_domain_event(row)


@pytest.mark.parametrize(
    ("marker", "sources", "is_ignorable", "expected"),
    [
        (None, None, False, {}),
        (None, None, True, {"ignorable": True}),
        (APPEND, None, False, {}),
        (APPEND, (), False, {"sources": []}),
        (Replace(7, 5), (5, 7), False, {"start": 7, "end": 5, "sources": [5, 7]}),
    ],
)
def test_a_state_is_the_json_of_what_topic_and_version_do_not_say(
    marker: Any, sources: Any, is_ignorable: Any, expected: dict[str, Any]
) -> None:
    """It is one JSON object, which ends with the data, byte for byte as it was encoded at append."""
    # given
    data = b'{"data":["a",\t1e0]}'
    # when
    row = MAPPER.to_stored_event(SessionEvent("s", 9, -3, "t", data, marker, sources, is_ignorable))
    # then
    assert {"time": -3, **expected, "data": {"data": ["a", 1.0]}} == json.loads(row.state)
    assert row.state.endswith(b',"data":' + data + b"}")


SOUND = MAPPER.to_stored_event(SessionEvent("s", 4, 0, "note", b"1")).state


@pytest.mark.parametrize(
    ("version", "topic", "state"),
    [
        (5, "log:note", b""),
        (5, "log:note", b"\xff\x00"),
        (5, "log:note", b'{"time":0}'),
        (5, "log:note", b'{"time":"0","data":1}'),
        (5, "log:note", b'{"time":0,"data'),
        (5, "log:note", SOUND.decode()),
        (5, "note", SOUND),
        (5, "os:system", SOUND),
        (5, "replace:user/message", SOUND),
        (5, "replace:user/message", b'{"time":0,"start":-1,"end":2,"data":1}'),
        (0, "session", b"{"),
        (0, "session", SOUND),
        (0, "session", None),
    ],
)
@pytest.mark.parametrize("mapper", [MAPPER, SEALED])
def test_a_row_that_cannot_be_read_names_its_event(mapper: SessionMapper, version: int, topic: str, state: Any) -> None:
    """A damaged row is a `DamagedStoreError` that says which session's and which event's; seq is None for a header."""
    # when
    with pytest.raises(DamagedStoreError) as caught:
        mapper.to_domain_event(StoredEvent("s", version, topic, state))
    # then
    assert ("s", version - 1 if version else None) == (caught.value.session_id, caught.value.seq)
    assert isinstance(caught.value, StoreError)
    assert "session 's'" + (f", event at seq {version - 1}: " if version else ": its header: ") in str(caught.value)


def test_the_library_reads_the_rows_that_it_is_asked_for_by_topic(store: SessionStore) -> None:
    """A reader that names its topics is given these events and no others, in the order of the database."""
    # given
    one, two = store.create(id="one"), store.create(id="two")
    say(one, "1")
    one.append("note", {})
    two.append("user/message", user_message("2", message_id="2"), APPEND)
    two.append("user/message", user_message("short", message_id="3"), Replace(0, 0), [0])
    store.save(one)
    store.save(two)
    # when
    recorder = store._application.recorder
    notifications = recorder.select_notifications(start=1, limit=9, topics=["append:user/message", "session"])
    # then
    found = [(row.originator_id, row.originator_version, row.topic) for row in notifications]
    message = "append:user/message"
    assert [("one", 0, "session"), ("two", 0, "session"), ("one", 1, message), ("two", 1, message)] == found
