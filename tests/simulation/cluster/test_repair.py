"""Logs heal themselves: every replica is damaged at another place while clients work, and all are
whole again. Whole clusters in virtual time, as in `test_seeds.py`."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData, Fatal, KafkaError
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.repair.repair import Repair, order_of
from josefine_broker.engine.partition.replica_role import ReplicaState
from josefine_broker.engine.replicas import catching_up
from josefine_broker.engine.replicas.repair.cuts import may_cut_for_leader
from josefine_broker.host.log import isolated_batch, recovery
from josefine_broker.host.log.damage import is_damage
from josefine_broker.host.log.scrub import Scrub
from josefine_broker.host.log.segment import Segment
from josefine_broker.host.replica_manager import Hosting
from tests.simulation.cluster.campaign import simulate_kind
from tests.simulation.cluster.faults import CALM, draw_faults
from tests.simulation.cluster.run import simulate
from tests.simulation.cluster.view import PartitionFacts
from tests.simulation.cluster.world import World
from tests.simulation.mutating import Mutant, mutated

HEALED_WITHIN_MS = 60_000


def grown(seed: int = 5, for_ms: int = 6_000) -> World:
    """A cluster of three brokers that has acknowledged records."""
    world = World(seed, brokers=3, faults=CALM)
    world.scheduler.run(for_ms)
    return world


def partition(world: World, topic: str) -> tuple[PartitionFacts, dict[int, HostedPartition], int]:
    """Its facts, its replicas by broker, and its leader."""
    ((facts, name, entry),) = (each for each in world.view.entries() if each[0].name == topic)
    found = {each: world.view.hosted(each, name, facts.key) for each in entry.replicas}
    return facts, {each: hosted for each, hosted in found.items() if hosted}, entry.leader


def path_of(world: World, broker_id: int, topic: str, offset: int) -> str:
    """The segment file that contains this offset."""
    files = world.machines[broker_id].disk.files
    bases = [name for name in files.list(topic) if name.endswith(".log")]
    return f"{topic}/{max(name for name in bases if int(name[:20]) <= offset)}"


def flip(world: World, broker_id: int, topic: str, offset: int, byte: int) -> None:
    """A bit of the batch with this base offset."""
    data = world.machines[broker_id].disk.files.names[path_of(world, broker_id, topic, offset)].data
    at = bytes(data).find(offset.to_bytes(8, "big"))
    assert at >= 0
    data[at + byte] ^= 1


def remove(world: World, broker_id: int, topic: str, offset: int, byte: int) -> None:
    """The whole segment."""
    files = world.machines[broker_id].disk.files
    path = path_of(world, broker_id, topic, offset)
    files.names.pop(path)
    files.durable_names.pop(path, None)


def shorten(world: World, broker_id: int, topic: str, offset: int, byte: int) -> None:
    """The segment ends within the batch with this base offset."""
    data = world.machines[broker_id].disk.files.names[path_of(world, broker_id, topic, offset)].data
    del data[bytes(data).find(offset.to_bytes(8, "big")) + byte :]


Damage = Callable[[World, int, str, int, int], None]


def sealed_offsets(world: World, broker_id: int, topic: str) -> list[int]:
    """The first offset of every segment that has an index."""
    names = world.machines[broker_id].disk.files.list(topic)
    return [int(name[:20]) for name in names if name.endswith(".index")]


def damage_of(hosted: HostedPartition) -> dict[int, object]:
    return dict(hosted.log.damage.found)  # type: ignore[attr-defined]


def look_everywhere(world: World, topic: str) -> None:
    """Every broker reads its whole log, as the scrub does."""
    _, replicas, _ = partition(world, topic)
    for hosted in replicas.values():
        for segment in hosted.log._segments:  # type: ignore[attr-defined]
            segment.reads.forget()
        offset = hosted.log.log_start_offset
        while offset < hosted.log.log_end_offset:
            with contextlib.suppress(KafkaError):
                hosted.log.read(offset, 1, end_offset=hosted.log.log_end_offset)
            offset += 1


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("topic", ["synced-0", "cached-0"])
@pytest.mark.parametrize("byte", [9, 20, 40, 70], ids=lambda each: f"byte {each}")
def test_flips_at_a_different_place_of_each_replica_are_repaired(topic: str, byte: int) -> None:
    world = grown()
    facts, replicas, _ = partition(world, topic)
    offsets = [each.base_offset for each in facts.batches[4:40:8]]
    for number, broker_id in enumerate(replicas):
        flip(world, broker_id, topic, offsets[number], byte)
    look_everywhere(world, topic)
    assert all(damage_of(hosted) for hosted in replicas.values())

    healed = world.scheduler.run_until(
        lambda: not any(damage_of(hosted) for hosted in replicas.values()),
        HEALED_WITHIN_MS,
    )

    assert healed
    look_everywhere(world, topic)
    assert not any(damage_of(hosted) for hosted in replicas.values())
    world.settle()


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("harm", [flip, remove, shorten])
@pytest.mark.parametrize("topic", ["synced-0", "cached-0"])
def test_sealed_segments_damaged_on_every_stopped_broker_are_repaired_after_the_start(
    topic: str, harm: Damage
) -> None:
    """All are killed, and another segment is damaged on each."""
    world = grown(seed=3)
    _, replicas, _ = partition(world, topic)
    common = set.intersection(*({*sealed_offsets(world, each, topic)} for each in replicas))
    assert len(common) >= 3
    for broker_id in world.broker_ids:
        world.kill(broker_id, power=False)
    for broker_id, offset in zip(replicas, sorted(common), strict=False):
        harm(world, broker_id, topic, offset, 20)
    for broker_id in world.broker_ids:
        world.start(broker_id)
    world.scheduler.run(3_000)
    look_everywhere(world, topic)

    def is_whole() -> bool:
        _, replicas, leader = partition(world, topic)
        return len(replicas) == 3 and leader >= 0 and not any(map(damage_of, replicas.values()))

    assert world.scheduler.run_until(is_whole, HEALED_WITHIN_MS)
    look_everywhere(world, topic)
    assert is_whole()
    assert world.met["damaged log removed"] == 0, "no operator was needed"
    world.settle()


UNSYNCED_HARMS = {
    "in the middle": (-9, -6, -3),
    "neighbours": (-5, -4, -3),
    "the last batch of two": (-1, -1, -4),
    "the first one and the last": (0, -1, -3),
}
"""Which batch is damaged on which replica."""


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("where", UNSYNCED_HARMS.values(), ids=UNSYNCED_HARMS.keys())
@pytest.mark.parametrize(
    ("topic", "power"),
    [("synced-0", False), ("cached-0", False), ("synced-0", True)],
    ids=["synced", "cached", "synced, power loss"],
)
def test_unsynced_ends_damaged_on_every_stopped_broker_are_repaired_after_the_start(
    topic: str, where: tuple[int, ...], power: bool
) -> None:
    heal_unsynced_ends(topic, where, power=power)


@pytest.mark.parametrize("is_broken", [False, True], ids=["", "mutant"])
def test_leader_in_doubt_that_is_killed_before_it_has_asked_asks_when_it_leads_again(
    is_broken: bool,
) -> None:
    """Its first election ended the doubt that the image kept."""
    mutant = Mutant(
        breaks="a leader elected in doubt asks, too, when it is elected again",
        function=catching_up.must_catch_up,
        old="entry.unclean_epoch == entry.leader_epoch or is_unasked",
        new="entry.unclean_epoch == entry.leader_epoch",
    )
    where = UNSYNCED_HARMS["the last batch of two"]
    if not is_broken:
        heal_unsynced_ends("synced-0", where, power=True, kills_leader=True)
        return
    with mutated(mutant), pytest.raises(AssertionError, match="without the committed"):
        heal_unsynced_ends("synced-0", where, power=True, kills_leader=True)


def heal_unsynced_ends(
    topic: str, where: tuple[int, ...], *, power: bool, kills_leader: bool = False
) -> None:
    """Nothing shows any more what was synced. Every batch is intact on one replica, which may be
    none that the first leader after the start would have asked. That leader may be killed first."""
    world = grown(seed=2)
    facts, replicas, _ = partition(world, topic)
    committed = list(facts.batches)
    for broker_id in world.broker_ids:
        world.kill(broker_id, power=power)
    for broker_id, number in zip(replicas, where, strict=True):
        files = world.machines[broker_id].disk.files
        for path in [name for name in files.list(topic) if name.startswith("synced")]:
            files.names.pop(f"{topic}/{path}")
        newest = max(name for name in files.list(topic) if name.endswith(".log"))
        files.names.pop(f"{topic}/{newest.removesuffix('.log')}.index", None)
        there = [b for b in committed if b.base_offset >= int(newest[:20])]
        assert len(there) > max(map(abs, where))
        flip(world, broker_id, topic, there[number].base_offset, 40)
    for broker_id in world.broker_ids:
        world.start(broker_id)
    if kills_leader:
        assert world.scheduler.run_until(lambda: leads_in_doubt(world, topic), HEALED_WITHIN_MS)
        _, _, leader = partition(world, topic)
        world.kill(leader, power=False)
        world.start(leader)

    def is_whole() -> bool:
        found, replicas, leader = partition(world, topic)
        return (
            len(replicas) == 3
            and leader >= 0
            and not any(map(damage_of, replicas.values()))
            and len(found.batches) >= len(committed)
            and all(each.log.log_end_offset >= found.end_offset for each in replicas.values())
        )

    assert world.scheduler.run_until(is_whole, HEALED_WITHIN_MS)
    look_everywhere(world, topic)
    assert is_whole()
    assert facts.batches[: len(committed)] == committed
    assert world.met["damaged log removed"] == 0, "no operator was needed"
    world.settle()


def leads_in_doubt(world: World, topic: str) -> bool:
    _, replicas, leader = partition(world, topic)
    return leader in replicas and replicas[leader].partition.state is ReplicaState.CATCHING_UP


ROT = {"rot_per_second": 4.0}
BAD_NETWORK = {
    "connection_break_per_second": 0.7,
    "connection_slow": 0.05,
    "raft_delay": 0.05,
    "pause_per_second": 0.2,
    "slow_link_per_second": 0.2,
}
LIVES = range(3_000, 3_012)
SEARCHED = 30


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("seed", LIVES)
def test_disks_that_decay_under_running_brokers_lose_nothing(seed: int) -> None:
    """No damaged record is read, every one stays readable, all replicas are equal in the end."""
    network = BAD_NETWORK if seed % 2 else {}

    world = simulate(seed, 5_000, faults=replace(CALM, **ROT, **network))

    assert world.met["log rotten"]


@pytest.mark.long_proof(share=2)
@pytest.mark.parametrize("seed", [29, 38, 47, 72])
def test_disks_that_decay_between_kills_and_starts_lose_nothing(seed: int) -> None:
    """Seeds that found something: a leader without the producers (38) or the epochs (29, 72) after
    its damage, and a record that a repair put in another one's place (47)."""
    drawn = draw_faults(Random(seed))

    world = simulate(seed, faults=replace(drawn, transactions=0.0, **ROT))

    assert world.met["log rotten"]


TRANSACTIONS = 1_000
"""Added to the number of a life that has transactions, where chance gives them."""
FOUND = (
    *(12, 98, 110, 113, 225, 240),
    *(TRANSACTIONS + each for each in (3, 10, 38, 126, 214, 261, 283, 344, 617, 871)),
)


def decay_between_kills(number: int) -> World:
    """Disks decay while brokers are killed, lose their power, and start again."""
    seed = number % TRANSACTIONS
    drawn = draw_faults(Random(seed))
    without = {} if number >= TRANSACTIONS else {"transactions": 0.0}
    return simulate(seed, faults=replace(drawn, **ROT, **without))


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("number", FOUND)
def test_kills_and_decaying_disks_in_the_same_life_lose_nothing(number: int) -> None:
    """Seeds that found something (docs/decisions/0019-repair-of-damaged-logs.md)."""
    assert decay_between_kills(number).met["log rotten"]


@pytest.mark.parametrize("seed", [43716, 45722])
def test_history_of_a_campaign_that_found_something(seed: int) -> None:
    """A base offset that had flipped upwards hid committed batches from a repair (43716), and a
    leader asked for damaged records that the others had deleted (45722)."""
    assert simulate_kind(seed).met["log rotten"]


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("seed", [44040, 44484, 44629, 46106, 46805, 48012])
def test_history_of_a_campaign_in_which_logs_differed(seed: int) -> None:
    """An epoch that had flipped to a later one (44040), a repair that started again and cut the log
    (44484), a leader whose log ends before the damage (44629), a leader elected in doubt for whom
    hidden epochs let a replica cut committed records (46106), or who took such an epoch from
    another replica (46805), and a batch of a leader who lost in place of an intact one (48012)."""
    simulate_kind(seed)


@pytest.mark.parametrize("seed", [40203])
def test_damage_to_brokers_that_are_down_lets_no_log_hide_that_it_differs(seed: int) -> None:
    """A hole was filled by the leader's batch, after batches of a leader who lost (40203)."""
    simulate(seed)


MUTANTS = (
    Mutant(
        breaks="reads deliver unverified batches",
        function=Segment._checked,
        old="verify(found, pos, header)",
        new="pass",
        seed=3019,
    ),
    Mutant(
        breaks="a repair asks only the leader",
        function=order_of,
        old="dict.fromkeys((leader, *isr, *replicas))",
        new="dict.fromkeys((leader,))",
        seed=3001,
    ),
    Mutant(
        breaks="one refusal means that records are lost",
        function=Repair.choose,
        old="each not in self._refused.keys() | self._silent",
        new="not self._refused",
        seed=3006,
    ),
    Mutant(
        breaks="an isolated batch needs no neighbour that confirms it",
        function=isolated_batch.find_isolated,
        old="ends.get(at) == header.base_offset",
        new="True",
        seed=3070,
    ),
    Mutant(
        breaks="the scrub passes over damage",
        function=Scrub._done,
        old="if isinstance(found, Found) and is_same:",
        new="if False:",
        seed=LIVES.start,
    ),
    Mutant(
        breaks="an unreadable sector is a failure of the disk",
        function=is_damage,
        old="error.errno in (errno.EIO, errno.ENOENT, errno.ESTALE)",
        new="False",
        seed=LIVES.start,
    ),
)


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_of_repair_is_noticed(mutant: Mutant) -> None:
    with mutated(mutant):
        for seed in range(mutant.seed, mutant.seed + SEARCHED):
            try:
                simulate(seed, 5_000, faults=replace(CALM, **ROT))
            except (AssertionError, CorruptData, KafkaError, Fatal):
                return
    pytest.fail(f"nobody noticed: {mutant.breaks}")


# Four rules of repairs are noticed by unit tests alone, in engine/replicas/repair/test_repairs.py:
# that a repair begins anew where its segment was cut. Without it the repair goes on with a damage
# that is another one by now, and two later rules end it. In host/log/test_segment_rebuild.py: that
# no batch of an older epoch follows a newer one in a copy, and that a later leader's batch proves
# nothing about ours before it, where these start the segment. In host/log/test_damage.py: that a
# damaged length is no place of an offset.
KILL_MUTANTS = (
    Mutant(
        breaks="a replica that lacks batches takes its role after its repair",
        function=Hosting.open,
        old="if partition_log.damage.lacks_batches:",
        new="if False:",
        seed=49,
    ),
    Mutant(
        breaks="a log is cut where its leader's batches do not fit, or end",
        function=may_cut_for_leader,
        old="if not partition.awaits_repair or sender != partition.leader:",
        new="if True:",
        seed=TRANSACTIONS + 617,
    ),
)


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("mutant", KILL_MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_noticed_between_kills(mutant: Mutant) -> None:
    with mutated(mutant), pytest.raises((AssertionError, CorruptData, KafkaError, Fatal)):
        decay_between_kills(mutant.seed)


START_MUTANTS = (
    Mutant(
        breaks="a start keeps intact batches after damage",
        function=recovery._refuse_intact,
        old="if not tally.keeps_tail:",
        new="if True:",
    ),
    Mutant(
        breaks="a leader in doubt asks the others for more",
        function=catching_up.must_catch_up,
        old="if not is_in_doubt or",
        new="if True or",
    ),
)


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("mutant", START_MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_of_a_start_is_noticed(mutant: Mutant) -> None:
    with mutated(mutant):
        for where in UNSYNCED_HARMS.values():
            try:
                heal_unsynced_ends("synced-0", where, power=True)
            except (AssertionError, CorruptData, KafkaError, Fatal):
                return
    pytest.fail(f"nobody noticed: {mutant.breaks}")
