"""The lock of a log's syncs: its own thread ends the sync that holds it, others wait for that."""

from __future__ import annotations

from threading import Event, Thread

from josefine_broker.host.log.sync_lock import SyncLock
from tests.support.waiting import wait_until


def test_syncer_takes_it_only_if_it_is_free() -> None:
    lock = SyncLock()
    with lock:
        assert not lock.take()
    assert lock.take()
    assert not lock.take()
    lock.free()
    assert lock.take()


def test_own_thread_waits_for_the_syncer_and_then_has_it() -> None:
    lock, waits = SyncLock(), list[str]()

    def wait() -> None:
        waits.append("ended")
        lock.free()

    assert lock.take()
    lock.wait = wait
    with lock:
        assert waits == ["ended"]
        assert not lock.take()
    with lock:
        assert waits == ["ended"]


def test_other_thread_has_it_after_the_syncer() -> None:
    lock, is_in, has_asked = SyncLock(), Event(), Event()
    assert lock.take()
    lock.wait = has_asked.set  # does nothing on another thread

    def enter() -> None:
        with lock:
            is_in.set()

    other = Thread(target=enter)
    other.start()
    assert has_asked.wait(30)
    assert not is_in.is_set()
    lock.free()
    other.join(30)
    assert is_in.is_set()


def test_syncer_leaves_it_to_a_thread_that_waits() -> None:
    """One sync after another would keep the flusher waiting, and with it all other logs."""
    lock, is_in, may_leave = SyncLock(), Event(), Event()

    def enter() -> None:
        with lock:
            is_in.set()
            may_leave.wait(30)

    assert lock.take()
    other = Thread(target=enter, daemon=True)
    other.start()
    wait_until(lambda: lock.is_wanted, 30, "the other thread waits")
    lock.free()
    assert not lock.take()
    assert is_in.wait(30)
    assert not lock.is_wanted
    assert not lock.take()
    may_leave.set()
    other.join(30)
    assert lock.take()
