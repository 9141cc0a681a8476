from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from dsh_projections import ModelSurface, replay
from dsh_projections.testing import session_logs
from dsh_session import (
    APPEND,
    InvalidSurfaceError,
    Replace,
    SessionEvent,
    SessionStore,
    assistant_message,
    user_message,
)
from dsh_session.testing import LogBuilder, naive_surface

if TYPE_CHECKING:
    from typing import Any


def naive_messages(events: list[SessionEvent]) -> list[Any]:
    """Read the message inside each node's event, where it lies; an empty reply gives none."""
    messages = []
    for seq in naive_surface(events).nodes:
        data = events[seq].data
        message = data.get("message", data)
        if "message" not in data and events[seq].type == "assistant/message":
            message = {"role": "assistant", "content": data["content"]}
        if events[seq].type != "assistant/message" or message["content"]:
            messages.append(message)
    return messages


def three_messages() -> LogBuilder:
    log = LogBuilder()
    for text in ("one", "two", "three"):
        log.append("user/message", user_message(text, message_id=text), APPEND)
        log.append("turn/end", {"turn": 1})
    return log


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_the_model_is_sent_the_surface(events: list[SessionEvent]) -> None:
    """Nodes, their events and their messages are those of the naive fold, in surface order."""
    surface = replay(ModelSurface(), events)
    assert naive_surface(events).nodes == surface.nodes
    assert [events[seq] for seq in surface.nodes] == surface.events()
    assert naive_messages(events) == surface.messages()
    assert surface.messages() == surface.view()


@settings(max_examples=40, deadline=None)
@given(session_logs(max_moves=14))
def test_any_earlier_surface_can_be_asked_for(events: list[SessionEvent]) -> None:
    """As of every seq, the surface is that of the log up to there, read from a list or from a store."""
    with SessionStore.open(":memory:") as store:
        session = store.create(id="s")
        for event in events:
            session.append_event(event)
        store.save(session)
        for seq in range(len(events)):
            expected = naive_surface(events[: seq + 1]).nodes, naive_messages(events[: seq + 1])
            for log in (events, iter(events), store.log("s")):
                surface = ModelSurface.as_of(log, seq)
                assert expected == (surface.nodes, surface.messages())


@pytest.mark.parametrize("seq", [-1, 6, 99])
def test_the_surface_as_of_no_event_is_a_lookup_error(seq: int) -> None:
    """A seq that the log does not have is refused, and the newest is named."""
    for events in ([], three_messages().events):
        with pytest.raises(LookupError, match=f"no event at seq {seq}"):
            ModelSurface.as_of(events, seq)


def test_an_event_that_does_not_fit_is_refused() -> None:
    """A replacement of what is no node is an error that says so, and leaves the nodes as they were."""
    log = three_messages()
    surface = replay(ModelSurface(), log.events)
    stray = log.append("user/message", user_message("x"), Replace(1, 2), [1, 2])
    with pytest.raises(InvalidSurfaceError) as caught:
        surface.apply(stray)
    assert ("start-not-on-surface", stray.seq) == (caught.value.rule, caught.value.seq)
    assert surface.nodes == (0, 2, 4)


def test_messages_are_the_caller_s_to_change() -> None:
    """What a caller does to the messages it got changes nothing for the next one."""
    surface = replay(ModelSurface(), three_messages().events)
    surface.messages()[0]["content"].clear()
    assert surface.messages()[0]["content"][0]["text"] == "one"


def test_a_reply_that_only_carries_usage_is_no_message() -> None:
    """An assistant message without content is a node, and nothing is sent for it."""
    log = three_messages()
    usage = assistant_message([], turn=1, step=1, provider="p", model="m", usage={"output": 0})
    empty = log.append("assistant/message", usage, APPEND)
    surface = replay(ModelSurface(), log.events)
    assert empty.seq == surface.nodes[-1]
    assert [message["id"] for message in surface.messages()] == ["one", "two", "three"]
