"""What a human waits for: the first screen of a long session, and the next event on it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from figures import Row, in_turn, micro, milli, seconds
from setting import LONG_ID, Process
from workload import agent_steps

from dsh_projections import HumanTranscript, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from setting import Setting
    from workload import Candidate

    from dsh_session import Session, SessionStore

APPENDED: Final = 2_000


def rows(setting: Setting) -> Iterator[Row]:
    shortest, *_, longest = setting.scale.lengths
    with setting.long_store("SQLite", longest) as long_store, setting.long_store("SQLite", shortest) as short_store:
        watched = [_watched(store) for store in (long_store, short_store)]
    compactions = sum(entry.kind == "compaction" for entry in watched[0][1].entries)
    for act, name in (("window", "the newest 50 entries"), ("screen", "the first screen, these entries as text,")):
        ours, short = in_turn(
            *(Process(setting, act, "SQLite", length) for length in (longest, shortest)), runs=setting.scale.runs
        )
        yield Row(
            f"{name} of {longest:,} events with {compactions} compactions, SQLite, fresh process",
            milli(ours.seconds),
            f"of {shortest:,}: {milli(short.seconds)}",
            short.times,
            at_most=2,
        )
    appended = agent_steps(min(APPENDED, setting.scale.events), chunks=12)
    ours, short = in_turn(
        *(partial(seconds, partial(_go_on, *of, appended)) for of in watched), runs=setting.scale.runs
    )
    yield Row(
        f"append an event and show it in the whole transcript, live, behind {longest:,} events",
        micro(ours.seconds, len(appended)),
        f"behind {shortest:,}: {micro(short.seconds, len(appended))}",
        short.times,
        at_most=1.5,
    )


def _watched(store: SessionStore) -> tuple[Session, HumanTranscript]:
    """Load a session, and read its whole transcript."""
    session = store.load(LONG_ID)
    session.messages()
    transcript = HumanTranscript()
    return session, replay(transcript, store.log(LONG_ID).read(topics=sorted(transcript.topics or ())))


def _go_on(session: Session, transcript: HumanTranscript, appended: list[Candidate]) -> None:
    for event_type, data, marker in appended:
        transcript.apply(session.append(event_type, data, marker))
