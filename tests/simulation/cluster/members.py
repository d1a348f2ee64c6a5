"""Brokers come, go for good, lose all they had, and get newer code: what an operator does to them.

One such change is under way at a time. A broker goes when it holds no replica any more: its
partitions are moved, it stops, and it is unregistered; or nobody stops it, perhaps it does not even
hear of it for a while: then it has to stop by itself. One whose whole data directory is lost comes
back empty, perhaps at another address; if it votes it is refused until its vote is taken away. That
is done only where the others have all that it had: more is not promised.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.features import JOSEFINE_VERSION, SUPPORTED
from josefine_broker.engine.metadata.image import TRANSACTION_VERSION, FeatureRange, MetadataImage
from josefine_broker.wire.entities import remove_raft_voter, unregister_broker, update_features
from tests.simulation.cluster.clients import Client

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process
    from tests.simulation.cluster.world import World

__all__ = ["NEWEST", "OLDEST", "Members"]

UPDATE_FEATURES, UNREGISTER, REMOVE_VOTER = (57, 2), (64, 0), (81, 0)
TIMEOUT_MS = 1_500
AGAIN_MS = 300
ADDED_MAX = 2
RUNS_ON = 0.6
"""This share of brokers that leave is not stopped for it;"""
STANDS_STILL = 0.5
"""of them these miss the block that says so, for they stand still for some seconds."""
MOVED = 0.3
"""A tenth of a second moves a replica away from who leaves, with this chance."""
NEWEST = SUPPORTED
OLDEST = (FeatureRange(JOSEFINE_VERSION, 1, 1),)
"""What code of before says that it understands."""


class Members(Client):
    """An operator with these plans."""

    def __init__(self, world: World, node: int, rng: Random) -> None:
        super().__init__(world, node, rng)
        self.leaving: int | None = None
        """Its partitions are being moved away."""
        self.replaced: int | None = None
        """It lost everything, and does not serve again yet."""
        self._is_removing = False
        self._addresses = 0
        self._manners = Random(world.seed + 9)

    def start(self) -> None:
        """Does nothing by itself: see `act`."""

    # -- what is done now and then

    def act(self, chance: float) -> None:
        """One of the changes begins, with this chance, or the one under way goes on."""
        self._look()
        if self.leaving is not None:
            self._go_on_leaving(self.leaving)
        elif self.replaced is None and self.rng.random() < chance:
            (self._add, self._begin_leaving, self._lose_all)[self.rng.randrange(3)]()

    def upgrade(self) -> None:
        """Ask for the newest levels; they are refused while a broker does not understand them."""
        # Some operators leave transactions at their first version.
        left = {TRANSACTION_VERSION} if self.world.seed % 4 == 0 else set()
        updates = (
            update_features.FeatureUpdateKey(feature=each.name, max_version_level=each.max_level)
            for each in NEWEST
            if each.name not in left
        )
        request = update_features.UpdateFeaturesRequest(feature_updates=tuple(updates))
        self.ask(self.any_broker(), UPDATE_FEATURES, request, TIMEOUT_MS, self._upgraded)

    def _upgraded(self, response: update_features.UpdateFeaturesResponse | None) -> None:
        if response is not None and response.error_code is ErrorCode.none:
            self.world.met["level raised"] += 1

    def settle(self) -> None:
        """No more of it: who was about to leave stays; who stopped for that already is removed."""
        self._look()
        if self.leaving in self.world.broker_ids:
            self.leaving = None
        elif self.leaving is not None:
            self._go_on_leaving(self.leaving)

    def expects(self, process: Process) -> bool:
        """May this process be told that it has no place in the cluster?"""
        id_ = process.machine.id
        return id_ == self.replaced or id_ not in self.world.view.image.brokers

    def dismissed(self, process: Process) -> None:
        """Its process has ended: a voter that came back empty, or one that was removed."""
        id_ = process.machine.id
        if id_ == self.replaced:
            self.world.met["voter without its data refused"] += 1
            self._take_vote(id_)
        elif id_ in self.world.broker_ids:
            self._forget(id_)

    # -- one more

    def _add(self) -> None:
        world = self.world
        if len(world.broker_ids) >= len(world.founder_ids) + ADDED_MAX:
            return
        new = max(world.machines) + 1
        world.add_machine(new)
        world.met["broker added"] += 1
        world.start(new)

    # -- one less

    def _begin_leaving(self) -> None:
        world = self.world
        there = [each for each in world.broker_ids if world.view.image.is_live(each)]
        if len(there) > len(world.founder_ids):
            self.leaving = self.any_broker()
            self._is_removing = False
            world.met["broker about to leave"] += 1

    def _go_on_leaving(self, id_: int) -> None:
        world = self.world
        if id_ in world.broker_ids:
            if self._holds(id_):
                if self.rng.random() < MOVED:
                    world.operator.move_one()
            else:
                self._stop_or_not(id_)
                world.broker_ids = tuple(each for each in world.broker_ids if each != id_)
        elif not self._is_removing:
            self._is_removing = True
            self._unregister(id_)

    def _stop_or_not(self, id_: int) -> None:
        world = self.world
        process = world.machines[id_].process
        if process is None:
            return
        # One that is not registered yet could not be removed, and would register later.
        is_there = id_ in world.view.image.brokers
        if not is_there or self._manners.random() >= RUNS_ON:
            world.kill(id_, power=False)
            return
        world.met["broker removed while it runs"] += 1
        if self._manners.random() < STANDS_STILL:
            process.stand_still(1_000 + int(self._manners.random() * 2_000))

    def _holds(self, id_: int) -> bool:
        return any(id_ in entry.replicas for _, _, entry in self.world.view.entries())

    def _unregister(self, id_: int) -> None:
        if self.leaving == id_:
            request = unregister_broker.UnregisterBrokerRequest(broker_id=id_)
            then = partial(self._unregistered, id_)
            self.ask(self.any_broker(), UNREGISTER, request, TIMEOUT_MS, then)

    def _unregistered(self, id_: int, response: Any) -> None:
        code = None if response is None else response.error_code
        was_gone = code is ErrorCode.broker_id_not_registered  # or whoever says so is behind
        is_there = id_ in self.world.view.image.brokers
        if code is ErrorCode.none or (was_gone and not is_there):
            self._forget(id_)
        else:
            if self._holds(id_):  # a topic was made meanwhile, perhaps only it has what is there
                self.world.start_if_down(id_)
                self.world.operator.move_one()
            self.after_ms(AGAIN_MS, partial(self._unregister, id_))

    def _forget(self, id_: int) -> None:
        world = self.world
        world.broker_ids = tuple(each for each in world.broker_ids if each != id_)
        if self.leaving == id_:
            self.leaving = None
            world.met["broker removed"] += 1

    # -- all that one had

    def _lose_all(self) -> None:
        """If the others have it all, and know whom they would miss."""
        world, id_ = self.world, self.any_broker()
        view = world.view
        held = [facts for facts, _, entry in view.entries() if id_ in entry.replicas]
        may_be = view.may_be_damaged(id_)
        others = [view.processes.get(each) for each in world.broker_ids if each != id_]
        is_known = all(each is not None and id_ in each.ctx.image.brokers for each in others)
        if not is_known or not all(facts in may_be for facts in held) or not self._outvoted(id_):
            return
        if world.machines[id_].process is not None:
            world.kill(id_, power=False)
        for facts in held:
            facts.damaged.add(id_)
        machine = world.machines[id_]
        machine.lose_everything()
        if id_ in view.voters:
            view.forgetful.add(id_)
        if self.rng.random() < 0.5:
            self._addresses += 1
            machine.address = HostPort(f"host{id_}-{self._addresses}", machine.address.port)
        self.replaced = id_
        world.met["data directory lost"] += 1
        world.scheduler.note(f"data directory of {id_} lost")
        self._start(id_)

    def _outvoted(self, id_: int) -> bool:
        """Whether the others are a majority without it: the vote of one that was removed is taken a
        moment later."""
        view = self.world.view
        others = view.voters.intersection(self.world.broker_ids) - view.forgetful - {id_}
        return id_ not in view.voters or 2 * len(others) > len(view.voters)

    def note_created(self, before: MetadataImage) -> None:
        """Topics that a block has just made, some of them perhaps at a broker that lost all and is
        not known to have: it cannot tell what it never had from what is gone, so it is not believed
        to be whole, and where nobody else is believed nobody leads."""
        id_ = self.replaced
        for facts, name, entry in self.world.view.entries():
            if id_ is not None and name not in before.topics and id_ in entry.replicas:
                facts.damaged.add(id_)
                if len(facts.damaged | facts.powerless) >= facts.min_isr:
                    facts.excused = facts.excused or f"made at broker {id_}, which had lost all"

    def _start(self, id_: int) -> None:
        self.after_ms(200, partial(self._start_now, id_))

    def _start_now(self, id_: int) -> None:
        machine = self.world.machines[id_]
        if id_ in self.world.broker_ids and machine.process is None:
            self.world.start(id_)

    def _take_vote(self, id_: int) -> None:
        if self.replaced == id_:
            request = remove_raft_voter.RemoveRaftVoterRequest(voter_id=id_)
            then = partial(self._vote_taken, id_)
            self.ask(self.any_broker(), REMOVE_VOTER, request, TIMEOUT_MS, then)

    def _vote_taken(self, id_: int, response: Any) -> None:
        done = (ErrorCode.none, ErrorCode.voter_not_found)
        if response is not None and response.error_code in done:
            self.world.met["vote taken away"] += response.error_code is ErrorCode.none
            self._start(id_)
        else:
            self.after_ms(AGAIN_MS, partial(self._take_vote, id_))

    def _look(self) -> None:
        """Is whoever was replaced back?"""
        id_ = self.replaced
        process = None if id_ is None else self.world.machines[id_].process
        if process is not None and process.is_serving:
            self.replaced = None
