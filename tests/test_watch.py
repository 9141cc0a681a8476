"""Waking up when something is saved, whatever database keeps it."""

from __future__ import annotations

from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from dsh_session import SessionStore
from stored import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsh_session import Watch

LONG = 20.0
"""Seconds that no test waits for, unless a wake-up fails."""


def waited(watch: Watch, seconds: float) -> float:
    """Wait, and return for how long."""
    started = monotonic()
    watch.wait(seconds)
    return monotonic() - started


def save_in(store: SessionStore, seconds: float) -> Timer:
    """Save something from another thread, after some seconds."""
    timer = Timer(seconds, store.create)
    timer.start()
    return timer


def test_a_save_wakes_who_waits(store: SessionStore) -> None:
    """A wait ends when another thread saves."""
    # given
    with store.watch() as watch:
        saving = save_in(store, 0.1)
        # when
        seconds = waited(watch, LONG)
    # then
    saving.join()
    assert 0.05 < seconds < LONG / 2


@pytest.mark.parametrize("save", ["create", "save", "fork"])
def test_what_was_saved_meanwhile_is_not_missed(store: SessionStore, save: str) -> None:
    """A save between the beginning of a watch and its first wait, or between two waits, ends the wait at once."""
    # given
    session = store.create()
    say(session, "hello")
    saves: dict[str, Callable[[], object]] = {
        "create": store.create,
        "save": lambda: store.save(session),
        "fork": lambda: store.fork(session.id),
    }
    with store.watch() as watch:
        # when
        saves[save]()
        # then
        assert waited(watch, LONG) < LONG / 2


def test_a_wait_in_vain_takes_its_time(store: SessionStore) -> None:
    """Where nothing is saved, a wait takes as long as it was told to; what was there before the watch is no news."""
    # given
    store.create()
    with store.watch() as watch:
        # when
        seconds = waited(watch, 0.2)
    # then
    assert 0.2 <= seconds < LONG / 2


def test_a_save_wakes_once(store: SessionStore) -> None:
    """After the wake-up, the next wait is for another save."""
    # given
    with store.watch() as watch:
        store.create()
        watch.wait(LONG)
        # when
        seconds = waited(watch, 0.2)
    # then
    assert 0.2 <= seconds < LONG / 2


def test_a_watch_listens_again_after_an_outage(postgres_url: str, hang_up: Callable[[], None]) -> None:
    """When the server has hung up, waits take their time, and then saves wake again."""
    with SessionStore.open(postgres_url) as store, store.watch() as watch:
        # given
        hang_up()
        # when
        seconds = waited(watch, 0.2)
        watch.wait(0.2)
        saving = save_in(store, 0.1)
        woken = waited(watch, LONG)
    # then
    saving.join()
    assert 0.2 <= seconds < LONG / 2
    assert woken < LONG / 2
