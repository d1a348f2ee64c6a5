"""Random lives of a three-broker partition: fetches and answers in any order, kill -9, fencing,
elections, lagging images. What was confirmed stays, logs agree below the high watermark.

The disk keeps what was written (page cache): losing power is the simulation's part.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from josefine_broker.engine.metadata.image import NO_LEADER
from josefine_broker.engine.purgatory.purgatory import Parked
from tests.unit.josefine_broker.api.replicas import Replicas, result_of

BROKERS = st.sampled_from((1, 2, 3))
PAIRS = st.sampled_from([(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b])


@dataclass(slots=True)
class Confirmable:
    """A record produced with acks=all, and its answer."""

    value: bytes
    answer: Any

    @property
    def offset(self) -> int | None:
        """Where it was confirmed to be; None: it was not (yet)."""
        answer = self.answer
        if isinstance(answer, Parked):
            if not answer.done:
                return None
            answer = result_of(answer)
        return answer.base_offset if answer.error_code == 0 else None


class ReplicatedPartition(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Replicas(3)
        self.cluster.create(min_insync_replicas="2")
        self.cluster.run()
        self.produced: list[Confirmable] = []
        self.confirmed: dict[int, bytes] = {}
        self.read: dict[int, tuple[int, int, bytes | None]] = {}
        """What any consumer could have read, by offset."""
        self.watermarks: dict[tuple[str, int], int] = {}
        self.numbers = 0

    # What happens.

    @rule(leader=BROKERS, acks=st.sampled_from((-1, -1, -1, 1)))
    def produce(self, leader: int, acks: int) -> None:
        if leader not in self.cluster.ctx:
            return
        self.numbers += 1
        value = b"%d" % self.numbers
        answer = self.cluster.produce(leader, value, acks=acks)
        if acks == -1:
            self.produced.append(Confirmable(value, answer))

    @rule(pair=PAIRS)
    def send(self, pair: tuple[int, int]) -> None:
        if pair[0] in self.cluster.ctx:
            self.cluster.send(*pair)

    @precondition(lambda self: self.cluster.waiting)
    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        # A connection keeps its order: only the oldest answer of a pair can come.
        oldest: dict[tuple[int, int], Any] = {}
        for waiting in self.cluster.waiting:
            oldest.setdefault((id(waiting.follower), id(waiting.leader)), waiting)
        self.cluster.receive(data.draw(st.sampled_from(list(oldest.values()))))

    @rule()
    def step(self) -> None:
        self.cluster.step()

    @rule(ms=st.sampled_from((1, 100, 600, 1_100)))
    def advance(self, ms: int) -> None:
        self.cluster.advance(ms)
        self.cluster.check_isrs()

    @precondition(lambda self: len(self.cluster.ctx) > 1)
    @rule(broker_id=BROKERS, fenced=st.booleans())
    def kill(self, broker_id: int, fenced: bool) -> None:
        if broker_id in self.cluster.ctx:
            self.cluster.kill(broker_id, fenced=fenced)

    @rule(broker_id=BROKERS)
    def start(self, broker_id: int) -> None:
        if broker_id not in self.cluster.ctx:
            self.cluster.start(broker_id)

    @rule(broker_id=BROKERS, fenced=st.booleans())
    def fence(self, broker_id: int, fenced: bool) -> None:
        if broker_id in self.cluster.ctx:
            self.cluster.fence(broker_id, fenced=fenced)

    @rule(broker_id=BROKERS)
    def hold_blocks(self, broker_id: int) -> None:
        if broker_id in self.cluster.ctx:
            self.cluster.held.add(broker_id)

    @rule()
    def release_blocks(self) -> None:
        self.cluster.held.clear()
        self.cluster.deliver()

    @rule(broker_id=BROKERS)
    def elect(self, broker_id: int) -> None:
        entry = self.cluster.entry()
        if broker_id in entry.isr and self.cluster.image.is_live(broker_id):
            self.cluster.lead(broker_id)

    # What must hold.

    @invariant()
    def no_confirmed_record_is_lost(self) -> None:
        for each in self.produced:
            offset = each.offset
            if offset is not None:
                assert self.confirmed.setdefault(offset, each.value) == each.value
        leader = self.cluster.entry().leader
        if self.knows_its_part(leader):
            found = {offset: value for offset, _, value in self.cluster.records(leader)}
            lost = {at: value for at, value in self.confirmed.items() if found.get(at) != value}
            assert not lost, f"leader {leader} lacks {lost}"

    @invariant()
    def what_consumers_could_read_never_changes(self) -> None:
        for broker_id in self.cluster.ctx:
            if ("orders", 0) not in self.cluster.ctx[broker_id].hosted.partitions:
                continue
            high_watermark = self.cluster.high_watermark(broker_id)
            for record in self.cluster.records(broker_id, below=high_watermark):
                assert self.read.setdefault(record[0], record) == record, broker_id

    @invariant()
    def members_of_the_isr_have_every_committed_record(self) -> None:
        if not self.read:
            return
        end = max(self.read) + 1
        for broker_id in self.cluster.entry().isr:
            if self.knows_its_part(broker_id):
                assert self.cluster.log_end(broker_id) >= end, f"{broker_id} ends before {end}"

    @invariant()
    def high_watermark_never_falls_within_an_epoch(self) -> None:
        for ctx in self.cluster.ctx.values():
            hosted = ctx.hosted.partitions.get(("orders", 0))
            if hosted is None:
                continue
            partition = hosted.partition
            key = (ctx.cluster.incarnation, partition.leader_epoch)
            assert self.watermarks.get(key, 0) <= partition.high_watermark
            assert partition.high_watermark <= hosted.log.log_end_offset
            self.watermarks[key] = partition.high_watermark

    def knows_its_part(self, broker_id: int) -> bool:
        """It runs, and has heard of the role that the chain gives it."""
        ctx = self.cluster.ctx.get(broker_id)
        if broker_id == NO_LEADER or ctx is None:
            return False
        hosted = ctx.hosted.partitions.get(("orders", 0))
        return (
            hosted is not None
            and hosted.partition.leader_epoch == self.cluster.entry().leader_epoch
        )

    def teardown(self) -> None:
        """In the end all come back, agree, and confirm again."""
        cluster = self.cluster
        cluster.held.clear()
        cluster.deliver()
        for broker_id in (1, 2, 3):
            if broker_id not in cluster.ctx:
                cluster.start(broker_id)
            cluster.fence(broker_id, fenced=False)
        for _ in range(6):
            cluster.run()
            cluster.advance(1_100)
            cluster.check_isrs()
        cluster.run()
        entry = cluster.entry()
        assert sorted(entry.isr) == [1, 2, 3]
        answer = cluster.produce(entry.leader, b"last")
        cluster.run()
        assert result_of(answer).error_code == 0
        assert cluster.records(1) == cluster.records(2) == cluster.records(3)
        self.no_confirmed_record_is_lost()


TestReplicatedPartition = ReplicatedPartition.TestCase
TestReplicatedPartition.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
