from __future__ import annotations

import pytest

from dsh_projections import CompactionProgress, RunningCompaction, replay
from dsh_session.testing import LogBuilder


@pytest.mark.parametrize("spelling", ["compact", "compaction"])
@pytest.mark.parametrize("closing", ["end", "session/end-seed"])
def test_a_bracket_seen_live_lights_the_indicator(spelling: str, closing: str) -> None:
    """The indicator is lit from a start that is seen live to its end, or to the seed's."""
    log = LogBuilder()
    progress = CompactionProgress()
    progress.go_live()
    start = log.append(f"{spelling}/start", {"compactionId": "x", "turn": None})

    progress.apply(start)

    assert RunningCompaction("x", start.seq, start.time) == progress.view()
    progress.apply(log.append(closing if "/" in closing else f"{spelling}/{closing}", {}))
    assert progress.view() is None


def test_a_bracket_found_on_replay_never_lights_it() -> None:
    """A start without an end that was there before the reader came tells of a dead process."""
    log = LogBuilder()
    log.append("compact/start", {"compactionId": "dead", "turn": None})

    progress = replay(CompactionProgress(), log.events)

    assert progress.view() is None
    progress.go_live()
    assert progress.view() is None
    live = log.append("compact/start", {"compactionId": "y", "turn": None})
    progress.apply(live)
    assert RunningCompaction("y", live.seq, live.time) == progress.view()


def test_a_start_without_an_id_is_shown_without_one() -> None:
    """A record whose data says nothing still lights the indicator."""
    log = LogBuilder()

    progress = CompactionProgress()
    progress.go_live()

    progress.apply(log.append("compact/start", None))

    assert RunningCompaction(None, 0, log.events[0].time) == progress.view()
