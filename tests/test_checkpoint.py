from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.checkpoint import (
    COMPACT_CHECKPOINT_SOURCE,
    compact_checkpoint_source,
    is_compact_checkpoint,
    is_compact_checkpoint_source,
)
from dsh_session import SessionEvent

APPENDED = "append"
REPLACING = {"op": "replace", "start": 0, "end": 3}


def message_event(source: object, marker: object, event_type: str = "user/message") -> SessionEvent:
    message = {"id": "m", "role": "user", "source": source, "content": []}
    data = message if event_type == "user/message" else {"turn": 1, "message": message, "source": source}
    return SessionEvent.from_wire({"type": event_type, "seq": 5, "time": 0, "data": data, "surfaceOp": marker})


def test_a_source_names_its_attempt() -> None:
    """The source of a checkpoint is the marker and the id of its compaction."""
    assert compact_checkpoint_source("c1") == {"kind": "plugin", "plugin": "compact", "compactionId": "c1"}


def test_a_source_names_the_command_that_asked() -> None:
    """A compaction that a command asked for carries that command's id too."""
    expected = {"kind": "plugin", "plugin": "compact", "compactionId": "c1", "sourceCommandId": "k1"}
    assert expected == compact_checkpoint_source("c1", "k1")


@given(compaction_id=st.text(min_size=1), command_id=st.none() | st.text(min_size=1))
def test_every_source_that_is_made_is_recognised(compaction_id: str, command_id: str | None) -> None:
    """What makes a source and what recognises one agree, whatever the ids."""
    assert is_compact_checkpoint_source(compact_checkpoint_source(compaction_id, command_id))


def test_the_bare_marker_of_older_logs_is_recognised() -> None:
    """A source without ids is that of a checkpoint all the same."""
    assert is_compact_checkpoint_source(dict(COMPACT_CHECKPOINT_SOURCE))


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "plugin", "plugin": "other"},
        {"kind": "plugin", "plugin": "Compact"},
        {"kind": "compact"},
        {"kind": "user", "plugin": "compact"},
        {"plugin": "compact"},
        {"kind": "plugin", "plugin": ["compact"]},
        {},
        None,
        "compact",
        ["kind", "plugin"],
    ],
)
def test_a_near_miss_is_no_checkpoint_source(source: object) -> None:
    """Only the kind and the plugin of the marker, both exactly, make a checkpoint's source."""
    assert not is_compact_checkpoint_source(source)


def test_a_replacing_message_with_the_source_is_a_checkpoint() -> None:
    """A user message with the marker's source that replaces nodes is a landed checkpoint."""
    assert is_compact_checkpoint(message_event(compact_checkpoint_source("c1"), REPLACING))


@pytest.mark.parametrize(
    ("source", "marker", "event_type"),
    [
        (compact_checkpoint_source("c1"), APPENDED, "user/message"),
        (compact_checkpoint_source("c1"), REPLACING, "steering/message"),
        ({"kind": "plugin", "plugin": "other"}, REPLACING, "user/message"),
        ({"kind": "user"}, REPLACING, "user/message"),
    ],
)
def test_one_of_the_three_signs_missing_makes_no_checkpoint(source: object, marker: object, event_type: str) -> None:
    """An appended message is injected context, and another type or another source is another replacement."""
    assert not is_compact_checkpoint(message_event(source, marker, event_type))
