"""Idempotent producers with up to five batches under way to each partition, as real clients have.

Rules, those of librdkafka and the Java client (KIP-98): batches go to one leader, over one
connection, in order. When one of them is refused, or there is no answer, nothing new is sent to
that partition; everything under way is answered or fails; then the batches that are not
acknowledged are sent again, the same bytes in their order, to the leader that is known then. That
is who the broker that refused named (KIP-951), or who the metadata of some broker names.

Judged: such a producer is never told that a sequence is out of order, and an acknowledgement means
that every batch before it is committed, too.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import takewhile
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.records.batch import NO_PRODUCER_ID, parse_header
from josefine_broker.wire.produce import ProducePartitionResponse, ProduceResponse
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.producing import (
    ACKS_ALL,
    NOT_FOUND,
    NOT_FOUND_MAX,
    PRODUCE,
    RETRIED,
    TIMEOUT_MS,
    Made,
    ProducingClient,
)
from tests.simulation.cluster.view import Key

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["Pipeline"]

IN_FLIGHT_MAX = 5
"""What brokers remember of a producer (KIP-98), so counted from the oldest batch that may be sent
again, with those behind it that are acknowledged."""

PERHAPS_STORED = frozenset(
    {ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append}
)
"""Told of a batch that is in the leader's log."""

HELD_BACK = "an earlier batch of this producer was refused"
HINT_TAKEN = 0.5
"""How likely the leader that a refusal names is asked at once, without a look at the metadata."""


class _Batch:
    """Not acknowledged yet. `told` is the answer to its last try, if there was one."""

    __slots__ = ("made", "number", "told")

    def __init__(self, made: Made, number: int) -> None:
        self.made = made
        self.number = number
        self.told: ErrorCode | None = None


class _Lane:
    """A producer's batches to one partition."""

    def __init__(self, target: Target, producer_id: int) -> None:
        self.target = target
        self.producer_id = producer_id
        self.sequence = 0
        self.batches = 0
        """Made so far."""
        self.waiting: deque[_Batch] = deque()
        """All that are not acknowledged, in order."""
        self.in_flight: deque[_Batch] = deque()
        """Those of them that were sent and may still be answered."""
        self.leader = -1
        """Where those went, and the next ones go."""
        self.hint: tuple[int, int] | None = None
        """Who leads, and in which epoch, by a broker that refused."""
        self.is_stopped = False
        """Nothing is sent until all is answered, and then first what was not acknowledged."""
        self.is_lost = False
        """The broker does not know what it had; this lane ends."""
        self.not_found = 0

    @property
    def is_drained(self) -> bool:
        return self.is_stopped and not self.in_flight

    @property
    def is_full(self) -> bool:
        return bool(self.waiting) and self.batches - self.waiting[0].number == IN_FLIGHT_MAX


class Pipeline(ProducingClient):
    """See the module."""

    never_goes_back = True

    def __init__(self, world: World, node: int, rng: Random) -> None:
        super().__init__(world, node, rng, acks=ACKS_ALL)
        self._lanes: dict[Target, _Lane] = {}
        self._gone: set[Target] = set()
        self._is_looking = False

    @property
    def waits_for(self) -> set[Key]:
        return {
            (target.topic_id, target.partition)
            for target, lane in self._lanes.items()
            if lane.waiting
        }

    def start(self) -> None:
        """Work until the end of the world."""
        self.refresh(self._next)

    def _next(self) -> None:
        """A burst of new batches to one partition, if it is time."""
        if not self.is_sending:
            self.after_ms(100, self._next)
            return
        if self.producer_id == NO_PRODUCER_ID:
            self.begin(self._next)
            return
        targets = [each for each in self.targets() if each not in self._gone]
        if not targets:
            self.after_ms(100, partial(self.refresh, self._next))
            return
        target = self.rng.choice(targets)
        count = 1 + self.rng.randrange(IN_FLIGHT_MAX)
        lane = self._lanes.get(target)
        if lane is None:
            lane = self._lanes[target] = _Lane(target, self.producer_id)
        for _ in range(count):
            self._send_another(lane)
        self.after_ms(10 + self.rng.randrange(count * self.world.pace_ms), self._next)

    def _send_another(self, lane: _Lane) -> None:
        """A new batch, if there is room."""
        if lane.is_stopped or lane.is_full:
            return
        leader = self.leaders.get(lane.target, -1)
        if leader != lane.leader and lane.in_flight:
            lane.is_stopped = True  # by metadata that another lane asked for
            return
        batch = _Batch(self.make(lane.target, lane.producer_id, lane.sequence), lane.batches)
        lane.batches += 1
        lane.sequence += batch.made.records
        lane.waiting.append(batch)
        lane.leader = leader
        if leader < 0:
            lane.is_stopped = True
            self._look()
        else:
            self._transmit(lane, batch)

    def _transmit(self, lane: _Lane, batch: _Batch) -> None:
        self.world.met["pipelined batch sent behind another"] += bool(lane.in_flight)
        batch.told = None
        lane.in_flight.append(batch)
        heard = partial(self._heard, lane, batch)
        self.ask(lane.leader, PRODUCE, self.request(batch.made), TIMEOUT_MS, heard)

    # -- answers

    def _heard(self, lane: _Lane, batch: _Batch, response: ProduceResponse | None) -> None:
        first = lane.in_flight.popleft()
        assert first is batch, f"{lane.target}: an answer overtook another one"
        if response is None:
            self.world.met["produce without an answer"] += 1
            lane.is_stopped = True
        else:
            self._told(lane, batch, response.topics[0].partitions[0])
        if lane.is_drained:
            self._drained(lane)

    def _told(self, lane: _Lane, batch: _Batch, answer: ProducePartitionResponse) -> None:
        met = self.world.met
        code = batch.told = ErrorCode(answer.error_code)
        if code is ErrorCode.none:
            lane.not_found = 0
            self.acknowledged(batch.made, answer.base_offset)
            self._judge_overtaken(lane, batch)
            lane.waiting.remove(batch)
            return
        lane.is_stopped = True
        met[f"producer told {code.name}"] += 1
        met["pipelined batch held back behind a refused one"] += answer.error_message == HELD_BACK
        if code in RETRIED:
            if answer.leader_id >= 0:
                lane.hint = answer.leader_id, answer.leader_epoch
        elif code not in NOT_FOUND:
            told = [each.told.name if each.told else None for each in lane.waiting]
            self.judge_lost(batch.made, code, f"{answer.error_message}; its batches: {told}")
            lane.is_lost = True

    def _judge_overtaken(self, lane: _Lane, batch: _Batch) -> None:
        """A later one is acknowledged first: fair when the earlier one is committed as well.

        Then that one was too late alone, or it is a batch of an earlier try, as this one is: it met
        a broker that did not lead yet, and this one, a moment later, was known as a duplicate.
        librdkafka takes the acknowledgement for both, Java sends the earlier one again.
        """
        facts = self.facts_of(batch.made)
        if facts is None or facts.excused:
            return
        for each in takewhile(lambda each: each is not batch, lane.waiting):
            was_late = each.told in PERHAPS_STORED
            met = "one that came too late" if was_late else "a refused one that was stored before"
            self.world.met[f"acknowledgement behind {met}"] += 1
            crc = parse_header(each.made.data).crc
            known = (*facts.batches, *facts.losses.batches)
            assert any(crc == stored.crc for stored in known), (
                f"{facts.name}: a batch was acknowledged, one before it is not committed, "
                f"it was told {each.told}"
            )

    # -- sending again

    def _drained(self, lane: _Lane) -> None:
        """Everything that was under way to this partition is answered, or never will be."""
        hint, lane.hint = lane.hint, None
        if (
            hint is not None
            and self.rng.random() < HINT_TAKEN
            and self.take_leader(lane.target, *hint)
        ):
            self.world.met["leader taken from a refusal"] += 1
            self._go_on(lane)
        else:
            self._look()

    def _look(self) -> None:
        """Wait a moment and look for the leaders, once for all lanes."""
        if not self._is_looking:
            self._is_looking = True
            self.after_ms(20 + self.rng.randrange(80), partial(self.refresh, self._looked))

    def _looked(self) -> None:
        self._is_looking = False
        for lane in list(self._lanes.values()):
            if lane.is_drained:
                self._go_on(lane)

    def _go_on(self, lane: _Lane) -> None:
        """Send again what was not acknowledged, and then new ones."""
        target = lane.target
        was_found = target in self.leaders and all(
            each.told not in NOT_FOUND for each in lane.waiting
        )
        lane.not_found += not was_found
        leader = self.leaders.get(target, -1)
        if lane.is_lost:
            del self._lanes[target]
        elif lane.not_found > NOT_FOUND_MAX:
            self.world.met["topic gone under a producer"] += 1
            self._gone.add(target)
            del self._lanes[target]
        elif leader < 0:
            self._look()
        else:
            self.world.met["pipeline went to another leader"] += leader != lane.leader
            lane.leader = leader
            lane.is_stopped = False
            self._send_again(lane)

    def _send_again(self, lane: _Lane) -> None:
        met = self.world.met
        was_refused = False
        for batch in lane.waiting:
            met["pipelined batch sent again"] += 1
            met["pipelined batch sent again behind a refused one"] += was_refused
            was_refused |= batch.told is not None and batch.told not in PERHAPS_STORED
            self._transmit(lane, batch)
