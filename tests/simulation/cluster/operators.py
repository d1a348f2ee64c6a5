"""A virtual operator: creates the topics, and then creates, deletes, alters and moves some."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.changes import ReassignItem, ReassignPartitions
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from josefine_broker.engine.proposing import submit_change
from josefine_broker.wire.entities import (
    create_topics,
    delete_records,
    delete_topics,
    incremental_alter_configs,
)
from tests.simulation.cluster.clients import Client
from tests.simulation.cluster.group_names import LETTERS, SHARERS
from tests.simulation.cluster.transfer_facts import TOPICS

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["Operator", "TopicSpec"]

CREATE, DELETE, ALTER, DELETE_RECORDS = (19, 7), (20, 6), (44, 1), (21, 2)
TIMEOUT_MS = 1_500
TOPIC_RESOURCE, GROUP_RESOURCE, SET = 2, 32, 0

Config = dict[str, str]
TopicSpec = tuple[str, int, int, Config]
"""Name, partitions, replicas, configuration."""


class Operator(Client):
    """See the module."""

    def __init__(self, world: World, node: int, rng: Random) -> None:
        super().__init__(world, node, rng)
        self.wanted: list[TopicSpec] = []
        self._made = 0

    def start(self) -> None:
        """Create what is wanted, however long it takes."""
        for spec in self.wanted:
            self.create(spec)
        if self.world.faults.dead_letters:
            self._letter_group()

    def _letter_group(self) -> None:
        """Give the share group its topic for dead letters; asked until it has it."""
        config = incremental_alter_configs.AlterableConfig(
            name="errors.deadletterqueue.topic.name", config_operation=SET, value=LETTERS
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=SHARERS, configs=(config,)
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))

        def altered(response: Any) -> None:
            if response is None or response.responses[0].error_code is not ErrorCode.none:
                self.after_ms(200, self._letter_group)

        self.ask(self.any_broker(), ALTER, request, TIMEOUT_MS, altered)

    def create(self, spec: TopicSpec) -> None:
        """Ask until it is there."""
        name, partitions, replicas, config = spec
        topic = create_topics.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=(),
            configs=tuple(
                create_topics.CreatableTopicConfig(name=key, value=value)
                for key, value in config.items()
            ),
        )
        request = create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS - 300)
        self.ask(self.any_broker(), CREATE, request, TIMEOUT_MS, partial(self._created, spec))

    def _created(
        self, spec: TopicSpec, response: create_topics.CreateTopicsResponse | None
    ) -> None:
        code = ErrorCode.request_timed_out if response is None else response.topics[0].error_code
        if code is ErrorCode.none:
            self.world.met["topic created"] += 1
        elif code is not ErrorCode.topic_already_exists:
            self.after_ms(200, partial(self.create, spec))

    def create_another(self) -> None:
        """One more topic, later deleted by chance."""
        self._made += 1
        config = {"segment.bytes": "2000", "min.insync.replicas": "1"}
        if self.world.power_fails or self.rng.random() < 0.5:
            config["flush.messages"] = "1"
        name = f"extra{self.rng.randrange(3)}"
        if name not in self.world.view.image.topics:
            self.create((name, 1, min(2, len(self.world.broker_ids)), config))

    def delete_one(self) -> None:
        names = sorted(name for name in self.world.view.image.topics if name.startswith("extra"))
        if not names:
            return
        state = delete_topics.DeleteTopicState(name=self.rng.choice(names))
        request = delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=TIMEOUT_MS)
        self.ask(self.any_broker(), DELETE, request, TIMEOUT_MS, self._deleted)

    def _deleted(self, response: delete_topics.DeleteTopicsResponse | None) -> None:
        if response is not None and response.responses[0].error_code is ErrorCode.none:
            self.world.met["topic deleted"] += 1

    def alter_one(self) -> None:
        names = sorted(self.world.view.image.topics)
        if not names:
            return
        config = incremental_alter_configs.AlterableConfig(
            name="segment.bytes", config_operation=SET, value=self.rng.choice(("1500", "4000"))
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=self.rng.choice(names), configs=(config,)
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))
        self.ask(self.any_broker(), ALTER, request, TIMEOUT_MS, self._altered)

    def _altered(self, response: Any) -> None:
        if response is not None and response.responses[0].error_code is ErrorCode.none:
            self.world.met["topic altered"] += 1

    def cut_one(self) -> None:
        """Move the start of a partition up, at most to where everything is committed."""
        choice = [
            (facts, name, entry.leader)
            for facts, name, entry in self.world.view.entries()
            if entry.leader >= 0 and not name.startswith("extra")  # this API goes by name
            if name not in INTERNAL_TOPICS and name not in TOPICS
        ]
        if not choice:
            return
        facts, name, leader = self.rng.choice(choice)
        offset = self.rng.randint(0, facts.end_offset)
        facts.deleted_before = max(facts.deleted_before, offset)
        part = delete_records.DeleteRecordsPartition(partition_index=facts.key[1], offset=offset)
        topic = delete_records.DeleteRecordsTopic(name=name, partitions=(part,))
        request = delete_records.DeleteRecordsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
        self.ask(leader, DELETE_RECORDS, request, TIMEOUT_MS, self._records_deleted)

    def _records_deleted(self, response: delete_records.DeleteRecordsResponse | None) -> None:
        if response is not None:
            part = response.topics[0].partitions[0]
            self.world.met["records deleted"] += part.error_code is ErrorCode.none

    def move_one(self) -> None:
        """Reassign a partition: other brokers, or another order, or call it off."""
        world, rng = self.world, self.rng
        every = [(name, facts.key, entry) for facts, name, entry in world.view.entries()]
        entries = [each for each in every if not each[0].startswith("extra")]
        awake = world.awake()
        if not entries or not awake:
            return
        leaving = world.members.leaving
        stuck = [each for each in every if leaving in each[2].target]
        _, (topic_id, index), entry = rng.choice(stuck or entries)
        ids = sorted(each for each in world.broker_ids if each != leaving)
        target: tuple[int, ...] | None = None
        if entry.is_reassigning and not world.view.image.keeps_doubts:
            # Below level 2 a second target may drop a replica that comes back too soon: only one
            # that stopped for good gives its place to another.
            target = self._without_the_stopped(entry.target, ids)
            if target is None:
                return
        elif stuck or not entry.is_reassigning or rng.random() < 0.7:
            target = tuple(rng.sample(ids, len(entry.target)))
        process = rng.choice(awake)
        change = ReassignPartitions(items=(ReassignItem(topic_id, index, target),))

        def propose() -> None:
            with suppress(KafkaError):  # a full disk, say: he tries again another day
                submit_change(process.ctx, change, process.clock.monotonic_ms() + 2_000)

        world.met["reassignment asked for"] += 1
        process.event(propose)

    def _without_the_stopped(
        self, target: tuple[int, ...], ids: list[int]
    ) -> tuple[int, ...] | None:
        """The target with another broker for the one that has stopped to be removed; None: there
        is no such one, or nobody to take its place."""
        gone = self.world.members.leaving
        others = [each for each in ids if each not in target]
        if gone is None or gone not in target or gone in self.world.broker_ids or not others:
            return None
        if self.world.machines[gone].process is not None:
            return None
        other = self.rng.choice(others)
        return tuple(other if each == gone else each for each in target)
