"""Who is let in, who gives way, and who stays, in made-up time."""

from __future__ import annotations

from josefine_broker.engine.limits.connection_limits import IDLE_MS_MIN, LOOK_EVERY_MS, Room


class Guest:
    """A connection."""

    def __init__(self, host: str, name: str = "") -> None:
        self.host = host
        self.name = name
        self.received = self.received_before = self.idle_since_ms = 0
        self.waits = False


def room(total_max: int, per_address_max: int | None = None) -> Room[Guest]:
    return Room[Guest](total_max=total_max, per_address_max=per_address_max)


def come(to: Room[Guest], host: str, now_ms: int, name: str = "") -> Guest | None:
    """Let one in, if that is possible."""
    guest = Guest(host, name)
    if to.make_room(host, now_ms).refusal:
        return None
    to.enter(guest, now_ms)
    return guest


def test_idle_connections_keep_nobody_out() -> None:
    """The issue: 2,000 of them did, for ten minutes."""
    full = room(2_000)
    for _ in range(2_000):
        come(full, "stranger", 0)

    for number in range(2_000):
        assert come(full, "client", IDLE_MS_MIN + number) is not None

    assert len(full) == 2_000


def test_who_has_been_idle_for_longest_gives_way() -> None:
    full = room(3)
    guests = [come(full, "a", now_ms) for now_ms in (30, 10, 20)]

    verdict = full.make_room("b", 5_000)

    assert verdict.gives_way is guests[1]
    assert len(full) == 2


def test_who_waits_for_an_answer_or_spoke_just_now_stays() -> None:
    full = room(2)
    waiting, speaking = come(full, "a", 0), come(full, "a", 0)
    assert waiting is not None
    assert speaking is not None
    waiting.waits = True
    speaking.received = 1

    verdict = full.make_room("b", 5_000)

    assert verdict.gives_way is None
    assert verdict.refusal == "there are 2 connections, and none is idle"
    assert full.make_room("b", 5_000 + IDLE_MS_MIN).gives_way is speaking


def test_who_spoke_since_the_last_look_stays_though_it_was_idle_then() -> None:
    """One look serves many newcomers."""
    full = room(3)
    guests = [come(full, "a", now_ms) for now_ms in (0, 1, 2)]
    assert full.make_room("b", 5_000).gives_way is guests[0]
    come(full, "b", 5_000)
    assert guests[1] is not None
    guests[1].received = 1

    assert full.make_room("b", 5_000).gives_way is guests[2]


def test_newcomers_that_all_come_at_once_do_not_push_each_other_out() -> None:
    full = room(10)

    assert sum(come(full, "a", 100) is not None for _ in range(50)) == 10


def test_an_address_at_its_limit_pushes_out_its_own() -> None:
    shared = room(10, per_address_max=2)
    other = come(shared, "other", 0)
    first, second = come(shared, "greedy", 1), come(shared, "greedy", 2)

    verdict = shared.make_room("greedy", 5_000)

    assert verdict.gives_way is first
    assert verdict.is_address_full
    assert other in shared.occupants()
    assert second in shared.occupants()


def test_an_address_whose_connections_are_busy_is_refused() -> None:
    shared = room(10, per_address_max=1)
    busy = come(shared, "greedy", 0)
    assert busy is not None
    busy.waits = True

    assert shared.make_room("greedy", 5_000).refusal == (
        "greedy has 1 connections, and none is idle"
    )
    assert come(shared, "other", 5_000) is not None


def test_a_flood_of_newcomers_does_not_look_at_everybody_each_time() -> None:
    full = room(1)
    busy = come(full, "a", 0)
    assert busy is not None
    looks = 0

    class Watched(Guest):
        @property
        def waits(self) -> bool:  # type: ignore[override]
            nonlocal looks
            looks += 1
            return True

        @waits.setter
        def waits(self, value: bool) -> None:
            pass

    busy.__class__ = Watched
    for number in range(1_000):
        assert full.make_room("b", 5_000 + number * LOOK_EVERY_MS // 100).refusal

    assert looks <= 12


def test_who_left_is_not_asked_to_leave_again() -> None:
    full = room(2)
    gone, stays = come(full, "a", 0), come(full, "a", 1)
    assert gone is not None
    full.leave(gone)
    full.leave(gone)
    come(full, "a", 2)

    assert full.make_room("b", 5_000).gives_way is stays


def test_the_idle_are_found_by_time() -> None:
    quiet = room(5)
    old, new, busy = come(quiet, "a", 0), come(quiet, "a", 900), come(quiet, "a", 0)
    assert busy is not None
    assert new is not None
    busy.waits = True

    assert quiet.idle_for(1_000, 1_000) == [old]
