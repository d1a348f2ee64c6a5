"""The checkpoint of high watermarks, and of leader epochs before snapshots."""

from uuid import UUID

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.metadata_quorum.apply_committed import ToHost, to_be_hosted
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.high_watermarks import FILE, HighWatermarks
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.recovered_epochs import recovered_epochs
from josefine_broker.host.replica_manager import Hosting
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import ManualClock, World
from tests.unit.josefine_broker.host.log.support import append, open_log

KEY = (UUID(int=1), 3)


def test_stored_high_watermarks_are_known_after_a_restart() -> None:
    files = MemoryFiles()
    job = HighWatermarks(files).due({KEY: 17})
    assert job is not None
    job()

    again = HighWatermarks(files)

    assert again.get(*KEY) == 17
    assert again.get(UUID(int=1), 4) == 0
    assert again.due({KEY: 17}) is None


def test_damaged_checkpoint_is_as_good_as_none() -> None:
    files = MemoryFiles()
    job = HighWatermarks(files).due({KEY: 17})
    assert job is not None
    job()
    files.names[FILE].data[-1] ^= 1

    assert HighWatermarks(files).get(*KEY) == 0


def test_restarted_follower_knows_its_high_watermark() -> None:
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),))
    cluster.produce(1, b"a")
    cluster.run()
    cluster.advance(600)
    cluster.run()
    assert cluster.high_watermark(2) == 1
    cluster.hosting[2].checkpoint_high_watermarks()
    cluster.produce(1, b"b", acks=1)
    cluster.kill(2)

    cluster.start(2)

    assert cluster.high_watermark(2) == 1


def test_high_watermark_past_a_log_that_lost_its_end_is_cut() -> None:
    world = World()
    world.create()
    world.produce()
    world.produce()
    world.hosting.checkpoint_high_watermarks()
    (log,) = [n for n in world.files.names if n.startswith("orders-0/") and n.endswith(".log")]
    del world.files.names[log].data[-1]

    again = World(world.settings, files=world.files, history=world.raft.committed, reconciled=False)
    again.hosting.prepare(to_be_hosted(again.ctx))
    again.follow()

    hosted = again.ctx.hosted.partitions["orders", 0]
    assert hosted.partition.high_watermark == hosted.log.log_end_offset == 1


def test_epochs_that_could_not_be_stored_are_found_in_the_batches() -> None:
    """A truncation not yet in the checkpoint must not put an epoch at the wrong place."""
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),))
    cluster.run()
    cluster.lead(1)
    cluster.produce(1, b"a", b"b")
    cluster.run()
    starts = cluster.hosted(2).partition.epochs.starts
    stale = cluster.files[2].names["orders-0/leader-epochs.checkpoint"]
    other = Replicas(2)
    other.create(replicas=((1, 2),))
    other.produce(1, b"x")
    other.run()
    other.lead(1)
    other.produce(1, b"y")
    other.run()
    stale.data[:] = other.files[2].names["orders-0/leader-epochs.checkpoint"].data
    cluster.kill(2)

    cluster.start(2)
    cluster.run()

    assert cluster.hosted(2).partition.epochs.starts == starts


def test_unreadable_log_that_was_removed_is_missing() -> None:
    """Also without the checkpoint of the process before: this one saw that there was a log."""
    files, tp, topic_id = MemoryFiles(), TopicPartition("t", 0), UUID(int=1)
    wanted = [ToHost(tp, topic_id, TopicSettings(), is_only_replica=False)]
    log = Hosting(LogManager(files), ManualClock()).open(*wanted[0][:3], 0).log
    append(log, [b"a"])
    log.close()
    files.names[f"{tp}/partition.json"].data[:] = b"{"
    hosting = Hosting(LogManager(files), ManualClock())
    assert hosting.prepare(wanted).of((topic_id, 0)) is Completeness.UNREADABLE
    with pytest.raises(CorruptData):
        hosting.open(*wanted[0][:3], 0)
    hosting.remove_strays(())

    files.remove_tree(str(tp))

    again = Hosting(LogManager(files), ManualClock())
    assert again.prepare(wanted).of((topic_id, 0)) is Completeness.MISSING


def test_log_that_lost_committed_records_may_lead_if_no_other_replica_is_better() -> None:
    """It asks the others for its end first. In the simulator no known seed shows it any more."""
    files, tp, topic_id = MemoryFiles(), TopicPartition("t", 0), UUID(int=1)
    wanted = [ToHost(tp, topic_id, TopicSettings(), is_only_replica=False)]
    log = Hosting(LogManager(files), ManualClock()).open(*wanted[0][:3], 0).log
    append(log, [b"a"])
    (name,) = [each for each in files.names if each.startswith(f"{tp}/") and each.endswith(".log")]
    first_bytes = len(files.names[name].data)
    append(log, [b"b"])
    job = HighWatermarks(files).due({(topic_id, 0): 2})
    assert job is not None
    job()
    del files.names[name].data[first_bytes:]

    hosting = Hosting(LogManager(files), ManualClock())

    assert hosting.prepare(wanted).of((topic_id, 0)) is Completeness.UNSYNCED


def test_start_that_waits_does_not_forget_what_was_stored() -> None:
    """It may wait for a majority for hours: until then the stored ones are all that is known."""
    files = MemoryFiles()
    job = HighWatermarks(files).due({KEY: 17})
    assert job is not None
    job()
    hosting = Hosting(LogManager(files), ManualClock())

    hosting.checkpoint_high_watermarks()

    assert HighWatermarks(files).get(*KEY) == 17
    hosting.remove_strays(())
    assert list(HighWatermarks(files)) == []


@pytest.mark.parametrize(
    ("stored", "seen", "starts"),
    [
        ([(5, 0)], [(4, 6)], ((5, 0),)),
        ([], [(3, 0), (2, 4), (6, 8)], ((3, 0), (6, 8))),
        ([(1, 0), (4, 7)], [(3, 5), (5, 8)], ((1, 0), (3, 5), (5, 8))),
    ],
)
def test_recovered_epochs_only_grow(
    stored: list[tuple[int, int]], seen: list[tuple[int, int]], starts: tuple[tuple[int, int], ...]
) -> None:
    """Whatever checkpoint and batches say: the batches that were read are the truth."""
    log = open_log(MemoryFiles())
    append(log, [b"v"] * 10)
    log.state.store_leader_epochs(LeaderEpochs(stored).to_bytes(10))

    assert recovered_epochs(log, seen).starts == starts
