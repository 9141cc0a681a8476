"""How a third party uses the kit: held by mypy --strict and pyright, and run like any test."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from dsh_compact import BasicCompactionEngine, CompactionPolicy, TokenMeter
from dsh_compact.testing import answers, compacted_logs, engine_test, worked_logs
from dsh_projections import HistoryPager, HumanTranscript, Projection
from dsh_projections.testing import (
    SystemMachine,
    check_marker_decides,
    check_nothing_said_is_lost,
    check_pages_tile,
    check_projection_laws,
    projection_test,
    session_moves,
)
from dsh_projections.testing import given as given_view
from dsh_session import APPEND, SessionStore, user_message
from dsh_session.testing import LogBuilder, crash_prefixes, interleavings, logs, show_log, store_test
from dsh_session.testing import given as given_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_compact import CompactionEngine
    from dsh_session import Session, SessionEvent
    from dsh_session.testing import Interleaving, Move

FEW = settings(max_examples=5, deadline=None)


class Words:
    """How many words the user has said."""

    version = 1
    topics = frozenset({"append:user/message"})

    def __init__(self) -> None:
        self.count = 0

    def apply(self, event: SessionEvent) -> None:
        if event.type == "user/message" and event.surface_op == APPEND:
            self.count += words_of(event)

    def view(self) -> int:
        return self.count

    def state(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state


class WordsIn(Words):
    """The same, with an argument."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language


def words_of(event: SessionEvent) -> int:
    texts: list[str] = [block["text"] for block in event.data["content"] if block["type"] == "text"]
    return sum(len(text.split()) for text in texts)


def naive_words(events: Sequence[SessionEvent]) -> int:
    return sum(words_of(event) for event in events if event.type == "user/message" and event.surface_op == APPEND)


def shout(log: LogBuilder) -> None:
    log.append("user/message", user_message("WELL WELL", message_id=f"m{len(log.events)}"), APPEND)


def say(session: Session) -> None:
    session.append("user/message", user_message("well"), APPEND)


def open_store() -> SessionStore:
    return SessionStore.open(":memory:")


my_moves: st.SearchStrategy[Move] = session_moves() | st.just(shout)
my_projection: Projection[int] = Words()
my_engine: CompactionEngine = BasicCompactionEngine(CompactionPolicy(context_window=500))

test_words = projection_test(Words, settings=FEW)
test_words_against_an_oracle = projection_test(Words, oracle=naive_words, logs=logs(my_moves), settings=FEW)
test_words_with_an_argument = projection_test(partial(WordsIn, "en"), logs=compacted_logs(), settings=FEW)
test_the_engine = engine_test(
    my_engine,
    meter=TokenMeter(),
    logs=worked_logs(max_moves=4),
    scripts=st.lists(answers(), min_size=1, max_size=2),
    settings=FEW,
)
test_the_store = store_test(open_store, settings=FEW)


@FEW
@given(crash_prefixes(), interleavings(max_moves=4), st.integers(1, 3))
def test_laws_can_be_held_one_by_one(prefix: list[SessionEvent], work: Interleaving, max_messages: int) -> None:
    check_projection_laws(Words, prefix, oracle=naive_words)
    check_nothing_said_is_lost(HumanTranscript, work.ours and work.base)
    check_marker_decides(HumanTranscript, work.base)
    check_pages_tile(HistoryPager(prefix), prefix, max_messages)


def test_examples_are_stated() -> None:
    log = LogBuilder()
    shout(log)
    given_view(Words, log.events).then(2)
    given_log(log.events).when(say).then("append:user/message")
    assert "WELL WELL" in show_log(log.events)


class MySystem(SystemMachine):
    """The whole system, with a projection and a rule of a third party's."""

    def open_store(self) -> SessionStore:
        return open_store()

    def make_engine(self) -> CompactionEngine:
        return my_engine

    def readers(self) -> dict[str, Projection[Any]]:
        return {"words": Words()}

    @rule(count=st.integers(1, 3))
    def shout(self, count: int) -> None:
        for _ in range(count):
            say(self.session)


TestMySystem = MySystem.TestCase
TestMySystem.settings = settings(FEW, stateful_step_count=10)
