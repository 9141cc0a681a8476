from __future__ import annotations

from typing import Any

from dsh_compact import compact_checkpoint_source
from dsh_projections import ContextLiveness, replay
from dsh_session import APPEND, Replace, user_message
from dsh_session.testing import LogBuilder

NOTES: Any = {"kind": "plugin", "plugin": "project-notes"}
REFERENCE: Any = {"kind": "session-reference"}
CHECKPOINT: Any = compact_checkpoint_source("x")


def test_contexts_are_live_until_they_are_shadowed() -> None:
    """A context is live by its plugin's name or its kind, until a replacement takes it off the surface."""
    log = LogBuilder()
    notes = log.append("user/message", user_message("notes", source=NOTES), APPEND)
    other = log.append("user/message", user_message("another session", source=REFERENCE), APPEND)
    again = log.append("user/message", user_message("notes", source=NOTES), APPEND)
    live = replay(ContextLiveness(), log.events)
    assert {"project-notes": (notes.seq, again.seq), "session-reference": (other.seq,)} == live.view()

    range_ = Replace(notes.seq, other.seq)
    live.apply(log.append("user/message", user_message("c", source=CHECKPOINT), range_, [notes.seq, other.seq]))

    assert {"project-notes": (again.seq,)} == live.view()
    assert live.is_live("project-notes")
    assert not live.is_live("session-reference")


def test_a_context_that_replaces_another_is_live() -> None:
    """A plugin's rewrite of its own context stands for the one that it replaces."""
    log = LogBuilder()
    notes = log.append("user/message", user_message("notes", source=NOTES), APPEND)
    newer = log.append("user/message", user_message("newer", source=NOTES), Replace(0, 0), [notes.seq])

    assert {"project-notes": (newer.seq,)} == replay(ContextLiveness(), log.events).view()


def test_what_was_said_and_checkpoints_are_no_context() -> None:
    """A user's words and a landed checkpoint are no injected context, nor is what carries no marker."""
    log = LogBuilder()
    said = log.append("user/message", user_message("hello"), APPEND)
    log.append("user/message", user_message("c", source=CHECKPOINT), Replace(0, 0), [said.seq])
    log.append("turn/start", {"turn": 1})

    assert replay(ContextLiveness(), log.events).view() == {}
