"""The compaction progress indicator: lit while a compaction that was seen to begin has not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dsh_session import COMPACT_RECORDS, compact_types, topics

if TYPE_CHECKING:
    from dsh_session import SessionEvent

_BRACKETS: Final = compact_types("start", "end")
_TOPICS: Final = topics("log", _BRACKETS | {"session/end-seed"})


@attrs.frozen
class RunningCompaction:
    """A compaction that is under way.

    Attributes:
        compaction_id: its id, where its start says it.
        seq: the seq of its start.
        started_at_ms: the time of its start, in Unix milliseconds.
    """

    compaction_id: str | None
    seq: int
    started_at_ms: int


class CompactionProgress:
    """Whether a compaction is under way.

    Only a bracket that is seen live lights the indicator. A start without an end that is found on replay tells of a
    process that died. So a progress is replayed first, and told with `go_live` that what comes next is live.
    """

    version = 1
    topics: frozenset[str] | None = _TOPICS

    def __init__(self) -> None:
        self._is_live = False
        self._running: RunningCompaction | None = None

    def go_live(self) -> None:
        """Take note that the log has been replayed, and that events are seen live from now on."""
        self._is_live = True

    def apply(self, event: SessionEvent) -> None:
        """Take in the next event. Cost: O(1)."""
        record = COMPACT_RECORDS.get(event.type)
        if record == "end" or event.type == "session/end-seed":
            self._running = None
        elif record == "start" and self._is_live:
            data = event.data
            compaction_id = data.get("compactionId") if isinstance(data, dict) else None
            self._running = RunningCompaction(compaction_id, event.seq, event.time)

    def view(self) -> RunningCompaction | None:
        """Return the compaction that is under way, or None."""
        return self._running

    def state(self) -> Any:
        """Return whether it is live, and the compaction that is under way."""
        running = None if self._running is None else list(attrs.astuple(self._running))
        return [self._is_live, running]

    def restore(self, state: Any) -> None:
        """Take on a state."""
        self._is_live, running = state
        self._running = None if running is None else RunningCompaction(*running)
