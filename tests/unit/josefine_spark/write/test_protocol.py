"""The exactly-once sink's protocol in a world of lists: killed between any two steps, zombies."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.client.groups import ProducerIdentity
from josefine_spark.base.errors import SinkError
from josefine_spark.write import protocol
from josefine_spark.write.state import (
    BATCH_WRITE,
    NUMBERED,
    Batch,
    Phase,
    Relation,
    SinkState,
    Verdict,
    attempt_id,
    driver_id,
    generation_of,
    relation,
)
from tests.unit.josefine_spark.sink_model import EXPECTED, QUERY, SINK, TIMEOUT_MS, Broker, World

SEEDS = 120


def seeded_world(
    seed: int, steps: ModuleType = protocol, trouble: float = 0.0, *, fences: bool = True
) -> World:
    rng = Random(seed)
    return World(Broker(rng, trouble, fences=fences), rng, steps)


def advance(life, broker: Broker) -> bool:
    """One step of a driver; False: it is over."""
    try:
        next(life)
    except (StopIteration, SinkError):
        return False
    return True


def check(one: World, what: object) -> None:
    one.finish()
    assert sorted(one.broker.visible) == EXPECTED, f"{what}: {sorted(one.broker.visible)}"


def killed_at(kill: int, seed: int, steps: ModuleType) -> bool:
    """A driver that ends after `kill` steps, and the next that runs to the end. False: the first
    was over before that."""
    one = seeded_world(seed, steps)
    life = one.life()
    for _ in range(kill):
        if not advance(life, one.broker):
            return False
    life.close()
    check(one, f"killed after {kill} steps")
    return True


def kill_everywhere(steps: ModuleType = protocol) -> int:
    for seed in range(8):
        for kill in count():
            if not killed_at(kill, seed, steps):
                break
    return kill


def swarm(
    seed: int, steps: ModuleType = protocol, *, fences: bool = True, open_ms: int = 0
) -> None:
    """Several drivers at once: who is new, who goes on and who ends is drawn; answers get lost."""
    one = seeded_world(seed, steps, trouble=0.05, fences=fences)
    one.broker.open_ms = open_ms
    lives = [one.life()]
    for _ in range(one.rng.randint(20, 250)):
        event = one.rng.random()
        if event < 0.03 or not lives:
            lives.append(one.life())
        elif event < 0.05:
            lives.pop(one.rng.randrange(len(lives)))
        elif event < 0.07:
            one.broker.deliver()
        elif event < 0.08:
            one.broker.time_out()
        else:
            life = one.rng.choice(lives[-2:])
            if not advance(life, one.broker):
                lives.remove(life)
    while one.broker.pending:
        one.broker.deliver()
    check(one, f"swarm({seed})")
    assert not (set(one.broker._FindOpen(None)) - zombies(one)), f"swarm({seed}): left open"


def zombies(one: World) -> set[str]:
    """Transactions that another driver may have opened after the last plan: the next ends them."""
    state = one.broker.state
    last = 0 if state is None else state.generation
    return {n for n in one.broker.transactions if (generation_of(SINK, n) or 0) <= last}


def test_a_driver_killed_between_any_two_steps_loses_and_repeats_nothing() -> None:
    assert kill_everywhere() > 40


def test_drivers_that_come_and_go_in_any_order_lose_and_repeat_nothing() -> None:
    for seed in range(SEEDS):
        swarm(seed)


MUTANTS = {
    "a zombie aborts those of newer drivers": (
        "found <= generation",
        "True",
        "    if gone:\n",
        "    if False:\n",
    ),
    "leftovers are aborted, decided or not": (
        "    if state.phase is Phase.DECIDED:\n"
        "        yield from _end_decided(sink_id, state)\n"
        "        state = state.settled()\n",
        "    state = replace(state, phase=Phase.SETTLED)\n",
    ),
    "a failed commit is undone": (
        "    if not _is_undecided(planned, state):\n        return False\n",
        "",
    ),
    "a decision on its way is not thought of": (
        "        yield Write(planned.driver, state)\n        state = yield Read()\n",
        "        pass\n",
    ),
    "what is decided is written again": ("return VERDICTS[found]", "return Verdict.WRITE"),
    "transactions are ended before they are decided": (
        "    driver: Driver = yield Write(planned.driver, state)\n"
        "    yield from _end_decided(sink_id, state)\n",
        "    yield from _end_decided(sink_id, state)\n"
        "    driver: Driver = yield Write(planned.driver, state)\n",
    ),
    "it is settled before it is": (
        "    yield from _end_decided(sink_id, state)\n    yield from _abort_left(sink_id, planned",
        "    yield from _abort_left(sink_id, planned",
    ),
    "what is gone is not noticed": ("    if gone:\n", "    if False:\n"),
}


def mutant(*changes: str) -> ModuleType:
    """With these texts replaced: what, by what, and so on."""
    text = Path(protocol.__file__).read_text()
    text = text.replace("from dataclasses import dataclass, field", "from dataclasses import *")
    for before, after in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    changed = ModuleType("mutant")
    changed.__dict__["__name__"] = protocol.__name__
    exec(compile(text, "mutant", "exec"), changed.__dict__)
    return changed


@pytest.mark.parametrize("name", MUTANTS)
def test_a_protocol_with_one_rule_less_is_caught(
    name: str,
) -> None:
    changed = mutant(*MUTANTS[name])

    with pytest.raises((AssertionError, SinkError)):
        many_lives(changed)


def test_a_broker_that_fences_no_driver_is_caught() -> None:
    with pytest.raises((AssertionError, SinkError)):
        many_lives(protocol, fences=False)


def many_lives(steps: ModuleType, *, fences: bool = True) -> None:
    kill_everywhere(steps)
    for seed in range(SEEDS * 5):
        swarm(seed, steps, fences=fences)


def batch(number: int, query: str = QUERY, fingerprint: str = "f") -> Batch:
    return Batch(query_id=query, batch_id=number, fingerprint=fingerprint)


@pytest.mark.parametrize(
    ("decided", "found"),
    [
        (None, Relation.FIRST),
        (batch(4), Relation.NEXT),
        (batch(5), Relation.SAME),
        (batch(5, fingerprint="other"), Relation.CHANGED),
        (batch(6), Relation.OLDER),
        (batch(5, query="other"), Relation.OTHER),
        (batch(4, query="other"), Relation.OTHER),
    ],
)
def test_a_batch_is_known_by_query_number_and_source_offsets(
    decided: Batch | None, found: Relation
) -> None:
    assert relation(decided, batch(5)) is found


@pytest.mark.parametrize("decided", [batch(5, "other"), batch(6), batch(5, fingerprint="x")])
def test_a_batch_that_may_be_there_already_stops_and_names_the_command(decided: Batch) -> None:
    with pytest.raises(SinkError, match=f"josefine sinks forget {SINK}"):
        protocol.judge(SINK, decided, batch(5))


def test_each_batch_write_is_a_new_one() -> None:
    one = batch(0, BATCH_WRITE)

    assert protocol.judge(SINK, one, one) is Verdict.WRITE


def test_numbered_batch_writes_are_known_by_number_and_fingerprint() -> None:
    one = batch(5, NUMBERED)

    assert protocol.judge(SINK, one, one) is Verdict.SKIP
    assert protocol.judge(SINK, one, batch(9, NUMBERED)) is Verdict.WRITE
    for other, words in (
        (batch(5, NUMBERED, "other"), "with another batchFingerprint"),
        (batch(4, NUMBERED), "batch numbers must grow"),
        (batch(6, BATCH_WRITE), "josefine sinks forget"),
    ):
        with pytest.raises(SinkError, match=words):
            protocol.judge(SINK, one, other)


def test_a_decisions_note_stays_with_it_until_the_next() -> None:
    noted = replace(batch(5, NUMBERED), note='{"end": 7}')
    decided = SinkState().planned().with_decision(noted, {})

    for state in (decided, decided.settled(), decided.settled().planned()):
        assert SinkState.decode(state.encode()) == state
        assert state.decided is not None
        assert state.decided.note == noted.note
    assert (
        "note"
        not in json.loads(SinkState().planned().with_decision(batch(5), {}).encode())["decided"]
    ), "records of before are as they were"


@pytest.mark.parametrize("kill", range(12))
def test_who_begins_behind_a_killed_driver_finds_its_decision_settled(kill: int) -> None:
    """Wherever it ended: what is decided is in the topic when `begin` has returned it, and what is
    not decided then never is."""
    one = seeded_world(kill)
    planned = run_to_end(one, protocol.plan(SINK, NUMBERED, 0, TIMEOUT_MS))
    name = attempt_id(SINK, planned.generation, 0, 0)
    epoch = one.broker.begin(name)
    one.broker.write(name, epoch, 1)
    written = protocol.Written(
        batch=batch(1, NUMBERED), transactions={name: ProducerIdentity(0, epoch)}
    )
    dying = one.taken(protocol.commit(planned, written, 0))
    for _ in range(kill):
        advance(dying, one.broker)

    found = run_to_end(one, protocol.begin(SINK))
    visible = list(one.broker.visible)
    while advance(dying, one.broker):
        pass

    assert found.phase is not Phase.DECIDED
    assert visible == ([1] if found.decided else [])
    assert one.broker.visible == visible
    assert run_to_end(one, protocol.look()).decided == found.decided


def test_a_state_comes_back_from_its_record() -> None:
    producers = {attempt_id(SINK, 1, n, n): ProducerIdentity(n, 2) for n in range(3)}
    planned = SinkState().planned()
    decided = planned.with_decision(batch(5), producers)

    for state in (planned, decided, decided.settled(), decided.forgotten()):
        assert SinkState.decode(state.encode()) == state
    assert decided.settled().planned().decided == batch(5)
    assert decided.forgotten() == replace(SinkState(), generation=1)
    assert planned.phase is Phase.PLANNED


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": 2}'])
def test_a_record_that_is_none_is_told(data: bytes) -> None:
    with pytest.raises(CorruptData):
        SinkState.decode(data)


def test_ids_of_one_sink_are_those_of_no_other() -> None:
    ids = [attempt_id("a", 1, 2, 3), attempt_id("a-1", 1, 2, 3), driver_id("a"), "a:1:2:3"]

    assert [generation_of("a", each) for each in ids] == [1, None, None, None]


def test_a_batch_that_took_nearly_as_long_as_its_transactions_may_is_not_decided() -> None:
    one = seeded_world(1)
    planned = run_to_end(one, protocol.plan(SINK, QUERY, 0, TIMEOUT_MS))
    name = attempt_id(SINK, planned.generation, 0, 0)
    written = protocol.Written(
        batch=batch(0), transactions={name: ProducerIdentity(0, one.broker.begin(name))}
    )

    with pytest.raises(SinkError, match="too close to the 1 s of kafka"):
        run_to_end(one, protocol.commit(planned, written, TIMEOUT_MS - 1))
    assert run_to_end(one, protocol.give_up(planned)) is True
    assert one.broker.visible == []


def test_what_is_decided_is_settled_by_an_operator_too_or_forgotten() -> None:
    one = seeded_world(1)
    planned = run_to_end(one, protocol.plan(SINK, QUERY, 0, TIMEOUT_MS))
    name = attempt_id(SINK, planned.generation, 0, 0)
    epoch = one.broker.begin(name)
    one.broker.write(name, epoch, 7)
    written = protocol.Written(batch=batch(0), transactions={name: ProducerIdentity(0, epoch)})
    steps = protocol.commit(planned, written, 0)
    result = None
    while one.broker.state is None or one.broker.state.phase is not Phase.DECIDED:
        result = one.broker.take(steps.send(result))
    steps.close()

    assert run_to_end(one, protocol.settle(SINK)) is True
    assert one.broker.visible == [7]
    assert run_to_end(one, protocol.settle(SINK)) is False
    assert run_to_end(one, protocol.forget(SINK)) is True
    assert run_to_end(one, protocol.forget(SINK)) is False
    assert run_to_end(one, protocol.plan(SINK, "another query", 0, TIMEOUT_MS)).generation == 2


def run_to_end(one: World, steps) -> object:
    taken = one.taken(steps)
    while True:
        try:
            next(taken)
        except StopIteration as stop:
            return stop.value


def test_what_is_not_decided_is_aborted_by_an_operator_too() -> None:
    """A participant's stays open for days, where no driver comes back."""
    one = seeded_world(1)
    one.broker.open_ms = 10**9
    planned = run_to_end(one, protocol.plan(SINK, QUERY, 0, TIMEOUT_MS))
    name = attempt_id(SINK, planned.generation, 0, 0)
    one.broker.begin(name)

    assert run_to_end(one, protocol.settle(SINK)) is False

    assert one.broker.transactions[name].rows is None
    with pytest.raises(SinkError, match="fenced"):
        run_to_end(one, protocol.commit(planned, protocol.Written(batch=batch(0)), 0))


def test_a_participants_batch_may_take_as_long_as_the_broker_leaves_it_open() -> None:
    one = seeded_world(1)
    one.broker.open_ms = 100 * TIMEOUT_MS
    planned = run_to_end(one, protocol.plan(SINK, QUERY, 0, TIMEOUT_MS))
    name = attempt_id(SINK, planned.generation, 0, 0)
    epoch = one.broker.begin(name)
    one.broker.write(name, epoch, 7)
    written = protocol.Written(batch=batch(0), transactions={name: ProducerIdentity(0, epoch)})
    assert (planned.two_phase, planned.timeout_ms) == (True, 100 * TIMEOUT_MS)

    with pytest.raises(SinkError, match="s of the broker's transactions"):
        run_to_end(one, protocol.commit(planned, written, 90 * TIMEOUT_MS))
    run_to_end(one, protocol.commit(planned, written, 70 * TIMEOUT_MS))

    assert one.broker.visible == [7]


def test_participants_that_come_and_go_in_any_order_lose_and_repeat_nothing() -> None:
    for seed in range(SEEDS // 2):
        swarm(seed, open_ms=10**9)
