"""A session goes on, is compacted, pruned, forked, saved, killed and overtaken, and its readers stay right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from dsh_compact import BasicCompactionEngine, CompactionPolicy, ToolResultPruner
from dsh_projections import SessionCounts
from dsh_projections.testing import SystemMachine
from dsh_session import APPEND, SessionStore, user_message
from stored import LosesOnConflict

if TYPE_CHECKING:
    from dsh_projections import Projection
    from dsh_session import Session

BRIEF = settings(deadline=None, max_examples=15, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow])
POLICY = CompactionPolicy(context_window=900, threshold_ratio=0.5)


class RetitledSystem(SystemMachine):
    """The system as an author would extend it: with an engine, a reader, a rule and an invariant of theirs."""

    def make_engine(self) -> BasicCompactionEngine:
        return BasicCompactionEngine(POLICY, pruner=ToolResultPruner(300, 100, 50))

    def readers(self) -> dict[str, Projection[Any]]:
        return {"counts": SessionCounts()}

    @rule()
    def retitle(self) -> None:
        self.session.append("session/title", {"title": f"title {self.session.next_seq}"})

    @invariant()
    def is_titled_last(self) -> None:
        titles = [event.data["title"] for event in self.log if event.type == "session/title"]
        assert titles == sorted(titles, key=lambda title: int(title[6:]))


TestSystem = SystemMachine.TestCase
TestSystem.settings = BRIEF
TestRetitledSystem = RetitledSystem.TestCase
TestRetitledSystem.settings = settings(BRIEF, max_examples=8)


class LockingSystem(SystemMachine):
    """An engine that leaves its lock behind."""

    def make_engine(self) -> Any:
        class Locks(BasicCompactionEngine):
            def compact(self, session: Session, *arguments: Any, **options: Any) -> Any:
                session.append("compact/start", {"compactionId": "c", "turn": session.open_turn.turn})
                return super().compact(session, *arguments, **options)

        return Locks(POLICY)


class CountingSystem(SystemMachine):
    """A reader that forgets what it has counted when it crashes."""

    def readers(self) -> dict[str, Projection[Any]]:
        class Forgets(SessionCounts):
            def restore(self, state: Any) -> None:
                pass

        return {"counts": Forgets()}


class ForgettingSystem(SystemMachine):
    """A store that loses what is pending in a conflict."""

    def open_store(self) -> SessionStore:
        return LosesOnConflict.open(":memory:")


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        (LockingSystem, "the engine says that a compaction is live, and none is|after the engine was asked"),
        (CountingSystem, "what the counts shows, against a replay"),
        (ForgettingSystem, "what is pending, after a conflict"),
    ],
)
def test_the_machine_finds_what_is_broken(machine: type[SystemMachine], found: str) -> None:
    """What somebody puts into the system in place of ours is held to everything that the system promises."""
    quick = settings(BRIEF, max_examples=200, phases=[Phase.generate], database=None, derandomize=True)
    with pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(machine, settings=quick)


def test_what_does_not_fit_behind_another_writer_is_given_up() -> None:
    """When the other has rewritten what we have compacted, nothing of ours lands, and the session goes on without."""
    # given
    machine = SystemMachine()
    machine.say(400, has_image=False)
    machine.save()
    machine.begin_by_hand(0, 0, None)
    machine.finish_by_hand("in short")
    assert len(machine.log) == 5
    # when
    machine.be_overtaken(40, 0, is_rewriting=True)
    # then
    assert [event.type for event in machine.log] == ["user/message"] * 2
    machine.store.close()


def test_what_is_said_meanwhile_stands_before_what_is_pending() -> None:
    """When the other has said something, ours lands behind it."""
    # given
    machine = SystemMachine()
    machine.session.append("user/message", user_message("ours"), APPEND)
    # when
    machine.be_overtaken(40, 0, is_rewriting=True)
    # then
    assert [event.data["content"][0]["text"][:4] for event in machine.log] == ["word", "ours"]
    machine.store.close()


def test_a_session_without_events_has_no_child() -> None:
    """A fork of nothing is no step, and the session goes on."""
    machine = SystemMachine()
    before = machine.session
    machine.fork()
    assert before is machine.session
    machine.store.close()


def test_the_steps_can_be_taken_by_hand() -> None:
    """A rule is a method, so an example of the whole system is written by calling them."""
    # given
    machine = SystemMachine()
    machine.begin(2)
    machine.begin_turn()
    machine.answer(40, 2, is_empty=False)
    # when
    machine.say(40, has_image=True)
    machine.give_result(1, 40, is_error=True)
    machine.end_turn(40)
    machine.be_killed(1.0, is_resumed=True)
    # then
    assert machine.is_between_turns()
    kinds = [event.type for event in machine.log[-6:]]
    assert kinds == ["steering/message", "tool/result", "tool/result", "step/end", "turn/end", "session/end-seed"]
    machine.store.close()
