"""Brokers of the engine in memory, with the smallest host there can be: a loop, one clock.

A `Member` is a broker and its host, which looks at it after a step, when it was told of work, and
when the time has come that it said last; at no other time. A `Group` carries what they say to one
another, in order, and moves the time. A second batch while one is written, or a broker that is due
and stays due, is an AssertionError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from josefine_broker.base.addresses import HostPort
from josefine_broker.engine import events as e
from josefine_broker.engine.broker import Broker, EngineConfig
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.cluster.frames import FrameError, Hello
from josefine_broker.engine.cluster.joining import Ask
from josefine_broker.engine.cluster.messages import Said
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.controller.controller import ControllerConfig
from josefine_broker.engine.metadata.changes import At, Change, RegisterBroker
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import Endpoint
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.metadata_quorum.quorum import SnapshotLimits
from josefine_broker.engine.proposing import submit_change
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.replica_manager import Hosting
from raft import BlockFile, Config, MemoryFiles, NodeId
from tests.simulation.memory_files import MemoryFiles as LogFiles
from tests.unit.josefine_broker.api.world import ManualClock

HEARTBEAT_MS = 20
ELECTION_MS = 100
BEAT_MS = 50
"""Between two heartbeats of a broker to its controller."""
SESSION_MS = 1_000
TURNS_MAX = 10_000


def address_of(broker_id: int) -> HostPort:
    return HostPort(f"host{broker_id}", 9093)


@dataclass(slots=True)
class Disk:
    """What a broker finds again when it comes back."""

    blocks: MemoryFiles = field(default_factory=MemoryFiles)
    logs: LogFiles = field(default_factory=LogFiles)
    cluster_id: str = ""
    book: bytes = b""
    lives: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where an answer goes."""

    by: Member
    number: int | None
    """Of its `Ask`; None: it came by a connection that lasts."""


class _Watched(Broker):
    """Keeps what was applied."""

    def applied(self, at: At, payload: bytes | None) -> None:
        assert isinstance(self._reach, Member)
        self._reach.applied.append((at, payload))


class Member:
    """One life of a broker; `Reach` too. `do` is its host's round."""

    def __init__(
        self,
        group: Group,
        broker_id: int,
        *,
        voters: tuple[int, ...] = (),
        seeds: tuple[int, ...] = (),
        disk: Disk | None = None,
        snapshots: SnapshotLimits | None = None,
        heartbeat_ms: int = HEARTBEAT_MS,
    ) -> None:
        self.group = group
        self.id = broker_id
        self.disk = disk or Disk()
        self.disk.lives += 1
        self.readys: list[e.Ready] = []
        """All that was asked of this host and was not empty."""
        self.applied: list[tuple[At, bytes | None]] = []
        self.store: e.Store | None = None
        """Given out, and not written yet; at once unless `holds_store`."""
        self.holds_store = False
        self.is_full = False
        """Nothing finds room."""
        self.greeted: dict[int, Hello] = {}
        """Whom this broker has dialed, and how it introduced itself."""
        self.lost: set[int] = set()
        """Brokers that have no process."""
        self.is_due = True
        self.wake_ms: int | None = None
        """The alarm of this host, as it was set after its last round."""
        self._file, recovered = BlockFile.open(self.disk.blocks, NodeId(broker_id))
        book = AddressBook()
        for each in voters:
            book.learn(each, address_of(each))
        if self.disk.book:
            book.take(self.disk.book)
        manager = LogManager(self.disk.logs)
        self.broker: Broker = _Watched(
            EngineConfig(
                raft=Config(
                    node_id=NodeId(broker_id),
                    initial_voters=tuple(NodeId(each) for each in voters),
                    cluster_id=f"named-by-{broker_id}",
                    format=1,
                    heartbeat_ms=heartbeat_ms,
                    election_timeout_ms=ELECTION_MS,
                ),
                snapshots=snapshots or SnapshotLimits(),
                settings=BrokerSettings(auto_create_topics=False, metadata_timeout_ms=1_000),
                controller=ControllerConfig(session_timeout_ms=SESSION_MS),
                address=address_of(broker_id),
                seeds=tuple(address_of(each) for each in seeds),
                named_voters=frozenset(voters),
                cluster_id=self.disk.cluster_id,
                heartbeat_ms=BEAT_MS,
                session_timeout_ms=SESSION_MS,
                proposal_timeout_ms=1_000,
            ),
            recovered=recovered,
            book=book,
            clock=group.clock,
            rng=Random(broker_id * 1_000 + self.disk.lives),
            logs=Hosting(manager, group.clock),
            reach=self,
            on_work=self._work,
        )
        group.members[broker_id] = self

    # -- as Reach

    def is_connected(self, broker_id: int) -> bool:
        return broker_id in self.greeted

    def trouble_with(self, broker_id: int) -> str:
        return "" if self.is_connected(broker_id) else "nobody"

    def gone(self) -> frozenset[int]:
        return frozenset(self.lost)

    # -- what a test asks and does

    @property
    def leads(self) -> bool:
        return self.broker.quorum.node.status().leader == self.id

    def step(self, event: e.Event) -> None:
        """Raises FrameError."""
        self.is_due = True
        self.broker.step(event)

    def enrol(self) -> None:
        self.step(
            e.Enrol(
                RegisterBroker(
                    broker_id=self.id,
                    incarnation=f"{self.id}-{self.disk.lives}",
                    endpoints=(Endpoint("PLAINTEXT", f"host{self.id}", 9092),),
                    features=SUPPORTED,
                )
            )
        )

    def submit(self, change: Change, timeout_ms: int = 5_000) -> Proposal:
        return submit_change(self.broker.ctx, change, self.group.now_ms + timeout_ms)

    def state(self) -> tuple[object, ...]:
        """What a word that is refused may not change."""
        node, ctx = self.broker.quorum.node, self.broker.ctx
        known = (node.status(), node.followers(), node.chain.head, len(ctx.metadata.proposals))
        standing = (ctx.image.to_bytes(), self.broker.place, ctx.cluster.controller_id)
        return (
            *known,
            *standing,
            self.broker.peers.book.to_bytes(),
            self.broker.hearing.met_unknown,
        )

    def hears(self, peer: Hello, said: Said) -> None:
        self.step(e.Heard(peer, said))

    def new_life(self, **more: object) -> Member:
        """Killed, and started again with what was durable."""
        self._file.close()
        self.group.forget(self)
        return Member(self.group, self.id, disk=self.disk, **more)  # type: ignore[arg-type]

    # -- its host

    def do(self) -> bool:
        """One round; whether there was anything to do."""
        broker, self.is_due = self.broker, False
        broker.tick(self.group.now_ms)
        ready = broker.ready()
        self.wake_ms = None if broker.failure is not None else broker.wake_at_ms()
        if ready == e.Ready():
            return False
        self.readys.append(ready)
        if ready.belongs_to:
            self.disk.cluster_id = ready.belongs_to
        if ready.store is not None:
            assert self.store is None, "a second batch, while one is written"
            self.store = ready.store
        for send in ready.sends:
            self.group.carry(self, send.to, send.said)
        for reply in ready.replies:
            self.group.carry_back(self, reply)
        for ask in ready.asks:
            self.group.ask(self, ask)
        if ready.book_changed:
            self.disk.book = broker.peers.book.to_bytes()
        if not self.holds_store:
            self.finish_store()
        return True

    def finish_store(self) -> None:
        """The disk is done with what it was given."""
        work, self.store = self.store, None
        if work is not None and self.is_full:
            self.step(e.FoundNoRoom("the disk is full"))
        elif work is not None:
            self._file.append(work.batch)
            self.step(e.Appended())
            if work.batch.must_sync:
                self._file.sync()
            self.step(e.Synced())

    def _work(self) -> None:
        self.is_due = True


class Group:
    """Members by id; what is under way between them arrives in the same millisecond, in order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.members: dict[int, Member] = {}
        self.cut: set[int] = set()
        """Brokers whose cable is out."""
        self.loses: tuple[type[Said], ...] = ()
        """Words that are lost on their way."""
        self.refused: list[str] = []
        """Why frames were refused."""
        self._under_way: deque[Callable[[], None]] = deque()

    @property
    def now_ms(self) -> int:
        return self.clock.elapsed_ms

    def of(self, *ids: int) -> list[Member]:
        return [self.members[each] for each in ids]

    def leader(self) -> Member:
        found = [each for each in self.members.values() if each.leads]
        assert len(found) == 1, found
        return found[0]

    def forget(self, member: Member) -> None:
        """Its process is gone, and its connections."""
        del self.members[member.id]
        for each in self.members.values():
            each.greeted.pop(member.id, None)

    # -- time

    def settle(self) -> None:
        """Until nobody has anything to do in this millisecond."""
        for _ in range(TURNS_MAX):
            did = False
            for member in list(self.members.values()):
                while member.broker.failure is None and member.is_due:
                    did = member.do() or did
            while self._under_way:
                self._under_way.popleft()()
                did = True
            if not did:
                return
        raise AssertionError("they never come to rest")

    def next_ms(self) -> int | None:
        """When somebody is due."""
        times = []
        for member in self.members.values():
            if member.broker.failure is None:
                times += [member.wake_ms, member.broker.ctx.parked.next_deadline_ms()]
        return min((each for each in times if each is not None), default=None)

    def pass_ms(self, ms: int, *, every_ms: int | None = None) -> None:
        """So much time, from one `wake_at_ms` to the next; or also `every_ms`."""
        end_ms = self.now_ms + ms
        self.settle()
        while True:
            next_ms = self.next_ms()
            assert next_ms is None or next_ms > self.now_ms, "who is due stays due"
            if every_ms is not None:
                next_ms = min(self.now_ms + every_ms, next_ms or end_ms)
            if next_ms is None or next_ms > end_ms:
                break
            self.clock.elapsed_ms = next_ms
            for member in self.members.values():
                is_time = member.wake_ms is not None and member.wake_ms <= self.now_ms
                member.is_due |= is_time or every_ms is not None
            self.settle()
            for member in self.members.values():  # a timer of its own, as in a process
                member.broker.ctx.parked.tick(self.now_ms)
            self.settle()
        self.clock.elapsed_ms = end_ms
        self.settle()

    def until(self, is_so: Callable[[], object], what: str, within_ms: int = 10_000) -> None:
        """Let time pass until it is."""
        end_ms = self.now_ms + within_ms
        self.settle()
        while not is_so():
            next_ms = self.next_ms()
            assert next_ms is not None, f"nobody is ever due again: {what}"
            assert next_ms <= end_ms, f"not within {within_ms} ms: {what}"
            self.pass_ms(next_ms - self.now_ms)

    def serve(self, *ids: int) -> None:
        """These have enrolled, and serve."""
        for member in self.of(*ids):
            member.enrol()
        self.until(
            lambda: all(each.broker.place is Place.SERVING for each in self.of(*ids)), "all serve"
        )

    # -- between members

    def carry(self, sender: Member, to: int, said: Said) -> None:
        receiver = self.members.get(to)
        if receiver is None or {sender.id, to} & self.cut or isinstance(said, self.loses):
            return
        if to not in sender.greeted and not self._greet(sender, receiver, to):
            return
        hello = sender.broker.hello(to)
        self._under_way.append(lambda: self._hear(receiver, hello, said, _Asked(sender, None)))

    def carry_back(self, sender: Member, reply: e.Reply) -> None:
        asked = reply.reply_to
        if asked is None:
            return  # to a word of the test's own
        assert isinstance(asked, _Asked)
        if {sender.id, asked.by.id} & self.cut:
            return
        if asked.number is not None:
            number, said = asked.number, reply.said
            self._under_way.append(lambda: asked.by.step(e.Answered(number, said)))
            return
        hello = sender.broker.hello(asked.by.id)
        self._under_way.append(lambda: self._hear(asked.by, hello, reply.said, None))

    def ask(self, asker: Member, ask: Ask) -> None:
        there = [each for each in self.members.values() if address_of(each.id) == ask.address]
        if not there or {asker.id, there[0].id} & self.cut or there[0] is asker:
            reason = f"{ask.address}: nobody"
            self._under_way.append(lambda: asker.step(e.Unanswered(ask.number, reason)))
            return
        if not self._greet(asker, there[0], ask.to, lasts=False):
            reason = f"{ask.address}: refused"
            self._under_way.append(lambda: asker.step(e.Unanswered(ask.number, reason)))
            return
        hello = asker.broker.hello(ask.to)
        asked = _Asked(asker, ask.number)
        self._under_way.append(lambda: self._hear(there[0], hello, ask.said, asked))

    def _greet(self, dialer: Member, other: Member, to: int, *, lasts: bool = True) -> bool:
        theirs, ours = dialer.broker.hello(to), other.broker.hello(0)
        reason = other.broker.why_not_admitted(theirs, "")
        if reason is not None:
            dialer.step(e.TurnedAway(f"{other.id} refused: {reason}"))
            return False
        other.step(e.Greeted(theirs, False))
        dialer.step(e.Greeted(ours, True))
        if lasts:
            dialer.greeted[other.id] = ours
        return True

    def _hear(self, member: Member, peer: Hello, said: Said, reply_to: object) -> None:
        try:
            member.step(e.Heard(peer, said, reply_to))
        except FrameError as error:
            self.refused.append(str(error))
