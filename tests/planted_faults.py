"""Faults to be planted in this library, one at a time, and the laws of the kit that must find them.

A fault is one place of ours that is changed: a piece of a function's source, a method, a constant. A law is made of
nothing but what `dsh_session.testing`, `dsh_compact.testing` and `dsh_projections.testing` offer anybody; none of them
knows what is planted.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import partial
from textwrap import dedent
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

import attrs
import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from dsh_compact import (
    BasicCompactionEngine,
    Compaction,
    CompactionPolicy,
    SurfaceLedger,
    ToolPairing,
    ToolResultPruner,
    begin_compaction,
)
from dsh_compact.selection import balanced_cut
from dsh_compact.summary import accepted_text
from dsh_compact.testing import engine_test
from dsh_projections import (
    CompactionProgress,
    ContextLiveness,
    EventClassifier,
    HistoryPage,
    HistoryPager,
    HumanTranscript,
    ModelSurface,
    SessionCounts,
    history_pager,
)
from dsh_projections.testing import (
    SystemMachine,
    check_marker_decides,
    check_nothing_said_is_lost,
    check_page,
    check_pages_tile,
    projection_test,
    session_logs,
)
from dsh_session import (
    Session,
    SessionStore,
    Surface,
    fold_surface,
    interrupted_turn_closers,
    lossless_json,
    message_of,
    surface,
)
from dsh_session import session as session_module
from dsh_session.interchange import chunk_rows, jsonl
from dsh_session.interchange.jsonl_reader import JsonlReader
from dsh_session.open_turn import OpenTurn
from dsh_session.storage import rebase
from dsh_session.storage.memory import MemoryRecorder, MemoryTracker
from dsh_session.testing import (
    check_conflict_loses_nothing,
    check_fold,
    check_import_is_whole_or_nothing,
    check_load_gives_what_was_saved,
    check_lossless,
    check_refuses_foreign,
    check_repair,
    check_surface,
    crash_prefixes,
    foreign_values,
    interleavings,
    json_values,
    logs,
    naive_classes,
    naive_surface,
    replaced_logs,
    session_of,
    store_test,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from dsh_session import SessionEvent

Plant: TypeAlias = "Callable[[], AbstractContextManager[object]]"

SETTINGS = settings(
    max_examples=100,
    stateful_step_count=10,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
"""As many examples as Hypothesis draws by default, the same in every run, up to the first that fails."""


def law(check: Callable[..., None], *strategies: st.SearchStrategy[Any]) -> Callable[[], None]:
    """Make the test of a law that holds one example."""

    @SETTINGS
    @given(st.tuples(*strategies))
    def test(example: tuple[Any, ...]) -> None:
        check(*example)

    return test


def naive_messages(events: Sequence[SessionEvent]) -> list[Any]:
    """Give what the model is sent: an answer without content says nothing."""
    nodes = [events[seq] for seq in naive_surface(events).nodes]
    messages = [(node.type, message_of(node.type, node.data)) for node in nodes]
    return [message for kind, message in messages if message["content"] or kind != "assistant/message"]


def naive_contexts(events: Sequence[SessionEvent]) -> dict[str, tuple[int, ...]]:
    """Give the injected contexts on the surface by their source."""
    live: dict[str, tuple[int, ...]] = {}
    for seq in sorted(naive_surface(events).nodes):
        source = message_of(events[seq].type, events[seq].data).get("source", {"kind": "model"})
        name = source.get("plugin", source["kind"])
        if name not in ("user", "model", "tool", "compact"):
            live[name] = (*live.get(name, ()), seq)
    return live


def naive_node_classes(events: Sequence[SessionEvent]) -> dict[int, Any]:
    """Give the class of every event that is or was a node."""
    return {seq: kind for seq, kind in naive_classes(events).items() if kind != "log-only"}


def round_trip(value: Any) -> Any:
    """Have a session keep a value, and read it back."""
    return session_of([]).append("note", value).data


def in_a_store(check: Callable[[SessionStore, Any], None]) -> Callable[[Any], None]:
    """Make a law of stores one of a store in memory."""

    def check_in_a_store(work: Any) -> None:
        with SessionStore.open(":memory:") as opened:
            check(opened, work)

    return check_in_a_store


def check_page_of_log(events: Sequence[SessionEvent], before: int, max_messages: int) -> None:
    """Check one page of a log."""
    check_page(HistoryPager(events), events, min(before, len(events)), max_messages)


def check_pages_of_log(events: Sequence[SessionEvent], max_messages: int) -> None:
    """Check all pages of a log."""
    check_pages_tile(HistoryPager(events), events, max_messages)


short_logs = session_logs(max_moves=16)
quotas = st.integers(1, 3)
ours = partial(projection_test, logs=short_logs, settings=SETTINGS)

LAWS: dict[str, Callable[[], None]] = {
    "fold": law(partial(check_fold, fold_surface), replaced_logs()),
    "surface": law(partial(check_surface, Surface), replaced_logs(max_moves=10)),
    "lossless": law(partial(check_lossless, round_trip), json_values()),
    "foreign": law(partial(check_refuses_foreign, round_trip), foreign_values()),
    "repair": law(partial(check_repair, interrupted_turn_closers), crash_prefixes()),
    "said": law(partial(check_nothing_said_is_lost, HumanTranscript), session_logs()),
    "marker": law(partial(check_marker_decides, HumanTranscript), short_logs),
    "page": law(check_page_of_log, session_logs(), st.integers(0, 40), quotas),
    "pages": law(check_pages_of_log, session_logs(), quotas),
    "transcript": ours(HumanTranscript),
    "counts": ours(SessionCounts),
    "model": ours(ModelSurface, logs=replaced_logs(), oracle=naive_messages),
    "contexts": ours(ContextLiveness, logs=session_logs(), oracle=naive_contexts),
    "progress": ours(CompactionProgress, oracle=lambda _: None),
    "classes": ours(EventClassifier, oracle=naive_node_classes),
    "engine": engine_test(
        BasicCompactionEngine(CompactionPolicy(context_window=500), pruner=ToolResultPruner(300, 100, 50)),
        settings=SETTINGS,
    ),
    "load": law(in_a_store(check_load_gives_what_was_saved), logs()),
    "conflict": law(in_a_store(check_conflict_loses_nothing), interleavings()),
    "import": law(in_a_store(check_import_is_whole_or_nothing), logs()),
    "store": store_test(lambda: SessionStore.open(":memory:"), settings=SETTINGS),
    "system": partial(run_state_machine_as_test, SystemMachine, settings=SETTINGS),
}
"""By a name: a test that passes, and that a fault which is planted makes fail."""


@attrs.frozen
class Fault:
    """Something that is wrong.

    Attributes:
        name: what is wrong.
        law: the law that must find it, by its name in `LAWS`.
        plant: gives a context in which it is there.
    """

    name: str
    law: str
    plant: Plant


def put(owner: Any, name: str, value: object) -> Plant:
    """Put something in the place of an attribute."""
    return partial(mock.patch.object, owner, name, value)


def edit(function: Any, before: str, after: str) -> Plant:
    """Put something in the place of a piece of a function's source; whoever has imported the function runs that.

    The function stays the same object, and only its code is another.
    """
    return partial(_edited, function, before, after)


@contextmanager
def _edited(function: Any, before: str, after: str) -> Iterator[None]:
    function = getattr(function, "__func__", function)  # of a class method
    source = dedent(inspect.getsource(function))
    source = source[source.index("async def " if inspect.iscoroutinefunction(function) else "def ") :]
    assert source.count(before) == 1, f"{before!r} stands {source.count(before)} times in {function.__qualname__}"
    names: dict[str, Any] = {}
    text = f"from __future__ import annotations\n{source.replace(before, after)}"
    exec(text, function.__globals__, names)  # noqa: S102 - the text is our own
    sound = function.__code__
    function.__code__ = names[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = sound


def with_one_memory() -> Callable[[ContextLiveness], None]:
    """Make a constructor whose instances share what they know."""
    names: dict[int, str] = {}

    def construct(self: ContextLiveness) -> None:
        self._surface = Surface()
        self._names = names

    return construct


def marking(apply: Callable[[Any, SessionEvent], None]) -> Callable[[Any, SessionEvent], None]:
    """Make an ``apply`` that marks what it has read."""

    def apply_and_mark(self: Any, event: SessionEvent) -> None:
        apply(self, event)
        msgspec.structs.force_setattr(event, "ignorable", True)

    return apply_and_mark


COPIES = frozenset({"replace:user/message", "replace:assistant/message"})
TRANSCRIPT_TOPICS = HumanTranscript.topics or frozenset()

FAULTS = [
    # The fold
    Fault("a range that lacks its last node", "fold", edit(Surface.span, "tuple(nodes)", "tuple(nodes[:-1] or nodes)")),
    Fault("a range that lacks its first node", "fold", edit(Surface.span, "tuple(nodes)", "tuple(nodes[1:] or nodes)")),
    Fault(
        "a range by numbers, not by position",
        "fold",
        edit(Surface._range, "self.span(start, end)", "tuple(node for node in self if start <= node <= end)"),
    ),
    Fault("a replacement that is not counted", "fold", edit(Surface._put, "self.generation += 1", "pass")),
    Fault(
        "a refused event that has changed the surface already",
        "surface",
        edit(Surface.take, "shadowed =", "self.generation += 1; shadowed ="),
    ),
    Fault("a plan that changes the surface", "surface", edit(Surface.plan, "return", "self.generation += 1; return")),
    Fault("a reversed range that is taken", "surface", edit(Surface._range, "if not span:", "if False:")),
    Fault(
        "a marker on a log-only event that is taken",
        "surface",
        edit(Surface._shadowed_by, "if marker is not None:", "if False:"),
    ),
    Fault(
        "provenance that does not cover the range", "surface", edit(Surface._shadowed_by, "if missing:", "if False:")
    ),
    Fault(
        "provenance that names an event twice",
        "surface",
        edit(surface._check_sources, "if len(set(sources)) != len(sources):", "if False:"),
    ),
    Fault(
        "provenance that names the event itself",
        "surface",
        edit(surface._check_sources, "max(sources) >= event.seq", "max(sources) > event.seq"),
    ),
    Fault(
        "provenance that is empty",
        "surface",
        edit(surface._check_sources, 'if event.type != "assistant/message":', "if False:"),
    ),
    Fault(
        "a result that takes another call's place",
        "surface",
        edit(Surface._check_result_rewrite, "if not _is_same(", "if not _is_same or False and ("),
    ),
    Fault(
        "a result that takes the place of two nodes",
        "surface",
        edit(Surface._check_result_rewrite, "len(shadowed) != 1", "len(shadowed) > 2"),
    ),
    # JSON
    Fault("a surrogate that is lost", "lossless", edit(lossless_json.encode, '"backslashreplace"', '"replace"')),
    Fault(
        "a float that is read as an int",
        "lossless",
        edit(
            lossless_json.decode,
            "_decode(encoded)",
            'json.loads(encoded, parse_float=lambda text: int(text[:-2]) if text.endswith(".0") else float(text))',
        ),
    ),
    Fault(
        "a key that is no str and becomes one",
        "foreign",
        edit(lossless_json._check, "if type(key) is not str:", "if False:"),
    ),
    Fault(
        "a tuple that becomes a list",
        "foreign",
        edit(lossless_json._check_leaf, "kind is str", "kind is str or kind is tuple"),
    ),
    Fault("a NaN that becomes null", "foreign", edit(lossless_json._check_leaf, "isfinite(leaf)", "True")),
    # Repair
    Fault("a call that is answered twice", "repair", edit(OpenTurn.unanswered.fget, "if not call.is_answered", "")),
    Fault("a step that is left open", "repair", edit(OpenTurn.repair_events, "if self.step is not None:", "if False:")),
    Fault(
        "a call that ran and is said not to have been started",
        "repair",
        edit(OpenTurn.repair_events, "is_started = call.started_seq is not None", "is_started = False"),
    ),
    # The transcript
    Fault(
        "a transcript that reads the surface instead of the markers",
        "said",
        edit(
            HumanTranscript.apply,
            "if event.type in SURFACE_EVENT_TYPES:",
            "self._entries = [each for each in self._entries if each.seq not in (event.source_event_seqs or ())]\n"
            "    if event.type in SURFACE_EVENT_TYPES:",
        ),
    ),
    Fault(
        "a transcript that shows replacements",
        "marker",
        edit(HumanTranscript.apply, "is_append_surface_event(event)", "event.surface_op is not None"),
    ),
    Fault(
        "a transcript that drops what was said into a turn",
        "said",
        edit(
            HumanTranscript.apply,
            "is_append_surface_event(event)",
            'is_append_surface_event(event) and event.type != "steering/message"',
        ),
    ),
    Fault(
        "a checkpoint that is known by its text",
        "said",
        edit(HumanTranscript.apply, "is_compact_checkpoint(event)", 'b"<checkpoint>" in event.encoded_data'),
    ),
    Fault(
        "a checkpoint that is known by replacing what was said",
        "marker",
        edit(HumanTranscript.apply, "is_compact_checkpoint(event)", 'event.type == "user/message"'),
    ),
    Fault(
        "a checkpoint that is known by its source alone",
        "said",
        edit(
            HumanTranscript.apply,
            "self._say(event)",
            '(self._mark_compaction if b\'"plugin":"compact"\' in event.encoded_data else self._say)(event)',
        ),
    ),
    Fault(
        "a shortened result that is told as a compaction",
        "said",
        edit(
            HumanTranscript.apply,
            "is_compact_checkpoint(event)",
            'event.type == "tool/result" or is_compact_checkpoint(event)',
        ),
    ),
    Fault(
        "a transcript that forgets, when it is restored, who asked for a call",
        "transcript",
        edit(HumanTranscript.restore, "self._asked = read.asked", "pass"),
    ),
    Fault(
        "a transcript that names too few topics",
        "transcript",
        put(HumanTranscript, "topics", TRANSCRIPT_TOPICS - {"log:turn/end"}),
    ),
    # The other projections
    Fault("a state that all sessions share", "contexts", put(ContextLiveness, "__init__", with_one_memory())),
    Fault(
        "a context that lives on when it is shadowed",
        "contexts",
        edit(ContextLiveness.apply, "self._names.pop(shadowed, None)", "pass"),
    ),
    Fault(
        "an event that is changed by its reader", "counts", put(SessionCounts, "apply", marking(SessionCounts.apply))
    ),
    Fault(
        "copies that are counted",
        "counts",
        edit(SessionCounts._changes, "is_append_surface_event(event)", "event.surface_op is not None"),
    ),
    Fault(
        "a stranger that is taken for what it looks like",
        "counts",
        edit(SessionCounts._changes, "match event.type:", 'match event.type.removeprefix("unheard-of/"):'),
    ),
    Fault(
        "an event that counts twice when it is delivered again",
        "counts",
        edit(MemoryTracker.move, "if position != before:", "if False:"),
    ),
    Fault(
        "an answer without content that is sent",
        "model",
        edit(ModelSurface.messages, "if message is not None", ""),
    ),
    Fault("a progress that a replay lights", "progress", edit(CompactionProgress.apply, " and self._is_live", "")),
    Fault(
        "a shadowed event that is taken for log-only",
        "classes",
        edit(EventClassifier.classify, '"shadowed" if seq in self._replaced_by else "log-only"', '"log-only"'),
    ),
    # Pages
    Fault(
        "a pager that counts copies",
        "page",
        put(history_pager, "COUNTED_TOPICS", history_pager.COUNTED_TOPICS | COPIES),
    ),
    Fault(
        "a pager that counts results",
        "page",
        put(history_pager, "COUNTED_TOPICS", history_pager.COUNTED_TOPICS | {"append:tool/result"}),
    ),
    Fault(
        "a page that is cut although its quota is not filled",
        "page",
        edit(HistoryPager.page, "len(counted) == max_messages", "counted"),
    ),
    Fault(
        "a checkpoint of which it is not said what it cites before its page",
        "page",
        edit(history_pager._outside, "if seq < first_seq", "if False"),
    ),
    Fault(
        "a message that is parted from its chunks",
        "pages",
        edit(HistoryPager.page, ", *(event.source_event_seqs or ())", ","),
    ),
    Fault(
        "a first seq that is one too high",
        "pages",
        edit(HistoryPage.first_seq.fget, "self.start if", "self.start + 1 if"),
    ),
    Fault("a last seq that is one too high", "pages", edit(HistoryPage.last_seq.fget, "self.stop - 1", "self.stop")),
    Fault("more before event 0", "pages", edit(HistoryPage.has_more.fget, "> 0", ">= 0")),
    # Compaction
    Fault(
        "a range that parts a call from its result, and is refused",
        "engine",
        edit(balanced_cut, "while not pairing.balanced_before(nodes[cut]):", "while False:"),
    ),
    Fault(
        "a range that parts a call from its result",
        "engine",
        edit(ToolPairing.add, "append(not self._open)", "append(True)"),
    ),
    Fault(
        "an engine that writes although the session fits",
        "engine",
        edit(BasicCompactionEngine.acompact, "before < limit", "before < 0"),
    ),
    Fault(
        "an engine that leaves its lock behind an error",
        "engine",
        edit(Compaction.__exit__, "if self.is_open:", "if False:"),
    ),
    Fault(
        "an engine that swallows a cancellation",
        "engine",
        edit(BasicCompactionEngine.acompact, "except SummaryRejectedError:", "except BaseException:"),
    ),
    Fault(
        "an engine that has other nodes summarised than it replaces",
        "engine",
        edit(Compaction._land, "Replace(self.nodes[0], self.nodes[-1])", "Replace(self.nodes[0], self.nodes[-2:][0])"),
    ),
    Fault(
        "an engine that does something else when it need not wait",
        "engine",
        edit(
            BasicCompactionEngine.compact,
            "session, trigger, summarize",
            "session, trigger.replace('overflow', 'manual'), summarize",
        ),
    ),
    Fault(
        "an engine that never comes to rest",
        "engine",
        edit(ToolResultPruner.prune_content, "total <= self.threshold_chars", "total <= self.head_chars"),
    ),
    Fault(
        "a checkpoint that does not cite its summary",
        "engine",
        edit(Compaction._land, "[start.seq, record.seq,", "[start.seq,"),
    ),
    Fault(
        "a checkpoint that costs more than what it replaces",
        "engine",
        edit(Compaction._land, "if tokens >= self.request.tokens:", "if False:"),
    ),
    Fault("a checkpoint of nothing", "engine", edit(accepted_text, "if not text:", "if False:")),
    Fault("a checkpoint of half a summary", "engine", edit(accepted_text, "if summary.is_cut_off:", "if False:")),
    Fault(
        "a checkpoint of an image",
        "engine",
        edit(
            accepted_text,
            'raise SummaryRejectedError(f"it carries a block of type {kind!r}; a summary is text")',
            "pass",
        ),
    ),
    Fault(
        "a live lock that is ignored",
        "system",
        edit(begin_compaction, "if session.open_compaction is not None:", "if False:"),
    ),
    Fault(
        "a price that outlives its node",
        "system",
        edit(SurfaceLedger._follow, "if surface.generation != self._generation:", "if False:"),
    ),
    # The store
    Fault(
        "a stale lock that blocks",
        "store",
        edit(Session._take, "if kind in COMPACTION_STARTS else None", 'if kind != "compact/end" else None'),
    ),
    Fault(
        "two live locks after a rebase",
        "conflict",
        edit(rebase.check_lock, "event.type in COMPACTION_STARTS", "False"),
    ),
    Fault(
        "a lock of another writer that a rebase frees",
        "conflict",
        edit(rebase.check_lock, "event.type in _OF_THE_OPEN_ONE", "False"),
    ),
    Fault(
        "a pending event that a conflict loses",
        "conflict",
        edit(SessionStore._save_pending, "raise ConflictError", "session.forget_pending(1); raise ConflictError"),
    ),
    Fault(
        "a session that is half rebased",
        "conflict",
        edit(SessionStore.rebase, "raise RebaseError", "session.become(rebased); raise RebaseError"),
    ),
    Fault(
        "provenance that a rebase does not move",
        "conflict",
        edit(rebase.renumbered, "tuple(map(move, event.source_event_seqs))", "event.source_event_seqs"),
    ),
    Fault(
        "a marker that a rebase does not move",
        "conflict",
        edit(rebase.renumbered, "marker = Replace(move(marker.start), move(marker.end))", "pass"),
    ),
    Fault(
        "a record that a rebase does not move",
        "conflict",
        edit(rebase._moved_data, "data[key] = [*map(move, held)]", "pass"),
    ),
    Fault(
        "half a save",
        "store",
        edit(SessionStore._save_pending, "map(self._mapper.to_row, pending)", "map(self._mapper.to_row, pending[:2])"),
    ),
    Fault(
        "a save of what no other writer has saved at its place",
        "store",
        edit(
            MemoryRecorder.insert_after,
            "self.insert_events(drawn)",
            "self.insert_events([each for each in drawn"
            " if each.originator_version not in self._versions(originator_id)])",
        ),
    ),
    Fault(
        "half an import",
        "import",
        edit(
            MemoryRecorder.insert_after,
            "drawn = [StoredEvent(originator_id, *row) for row in rows]",
            "for row in rows if after < 0 else ():\n"
            "        self.insert_events([StoredEvent(originator_id, *row)])\n"
            "    drawn = [StoredEvent(originator_id, *row) for row in rows] if after >= 0 else []",
        ),
    ),
    Fault("a fork that lacks its last event", "store", edit(SessionStore.fork, "else at + 1", "else max(at, 1)")),
    Fault("a fork with one event more", "store", edit(SessionStore.fork, "else at + 1", "else min(at + 2, length)")),
    Fault(
        "a fork inside a turn", "store", edit(SessionStore.fork, "if child.open_turn.turn is not None:", "if False:")
    ),
    Fault(
        "a resume that marks no seed",
        "store",
        edit(SessionStore.resume, 'session.append("session/end-seed", {})', "pass"),
    ),
    Fault(
        "a resume that writes although nothing has happened",
        "store",
        edit(SessionStore.resume, 'type == "session/end-seed":', 'type == "":'),
    ),
    Fault(
        "a snapshot that forgets the open turn",
        "import",
        edit(Session.restore, 'session.open_turn = OpenTurn.restore(state["open_turn"])', "pass"),
    ),
    Fault(
        "a snapshot that forgets the open calls",
        "import",
        edit(OpenTurn.restore, "{call_id: OpenCall(*call) for call_id, *call in calls}", "{}"),
    ),
    Fault(
        "a snapshot that forgets the request header",
        "import",
        edit(Session.restore, 'fetch(state["requests"])', "()"),
    ),
    Fault(
        "a load that misses a topic",
        "load",
        put(
            session_module,
            "_FOLLOWED_TOPICS",
            [topic for topic in session_module._FOLLOWED_TOPICS if topic != "append:steering/message"],
        ),
    ),
    Fault(
        "a stream that tells one event less than was asked for",
        "store",
        edit(SessionStore.notifications, "for position, row in events]", "for position, row in events[: limit - 1]]"),
    ),
    # Files
    Fault(
        "an export that loses what may be ignored",
        "store",
        edit(jsonl.to_jsonl_line, "b',\"ignorable\":true}' if event.ignorable else", ""),
    ),
    Fault(
        "a row that joins two streams",
        "store",
        edit(chunk_rows._block_of, "repr((piece.turn, piece.step, chunk.index))", '""'),
    ),
    Fault(
        "a row in which time does not step back",
        "store",
        edit(chunk_rows._closed, "later.time - earlier.time", "max(later.time - earlier.time, 0)"),
    ),
    Fault(
        "lines that part at U+2028",
        "store",
        edit(JsonlReader._lines, "block.split(", 'block.replace("\\u2028".encode(), b"\\n").split('),
    ),
]
"""Each is found by its law within the examples that Hypothesis draws by default."""
