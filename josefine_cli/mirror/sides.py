"""The two clusters of a mirror: what a topic is there, and which session may append."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple
from uuid import UUID, uuid4

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import ConfigEntry, create_partitions
from josefine_broker.client.effects import Operation
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient, NewTopic
from josefine_broker.client.offsets import epoch_ends
from josefine_broker.client.security import PLAINTEXT
from josefine_broker.client.session import Session
from josefine_cli.base.client_config import file_security
from josefine_cli.base.errors import UserError
from josefine_cli.base.output import checked_addresses
from josefine_cli.mirror.configs import END_EPOCHS, ENDS, EPOCHS, SESSION, SOURCE, changes, served
from josefine_cli.mirror.epochs import Answers, Notes, parse, render
from josefine_cli.mirror.plan import Ends

READ_COMMITTED = 1
NAMED_S = 5.0
"""How long a broker may need to learn of a new session."""


class Source(NamedTuple):
    """A topic of the source."""

    identity: str
    """Its cluster and its id: a topic of the same name that is created later is another one."""
    topic_id: UUID | None
    partitions: int
    configs: Mapping[str, ConfigEntry]

    @property
    def compacts(self) -> bool:
        """Whether records may be removed before the last one."""
        policy = self.configs.get("cleanup.policy")
        return policy is not None and "compact" in (policy.value or "")


def new_session() -> str:
    """A name of this process's mirror that no other one has."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:12]}"


def open_source(bootstrap: str, config: str | None) -> BlockingClient:
    """A client of the source; `config`: the file with its security settings. Raises UserError."""
    security = PLAINTEXT if config is None else file_security(config, os.environ)
    where = checked_addresses(bootstrap)
    return BlockingClient(where, client_id="josefine-mirror", security=security)


def source_topic(source: BlockingClient, topic: str) -> Source:
    """Raises UserError if the topic does not exist, and KafkaError."""
    found = source.metadata([topic])
    known = found.topics.get(topic)
    if known is None or known.error_code is not ErrorCode.none:
        code = ErrorCode.unknown_topic_or_partition if known is None else known.error_code
        raise UserError(f"topic '{topic}' of the source: {code.name.replace('_', ' ')}")
    topic_id = known.topic_id if known.topic_id and known.topic_id.int else None
    name = str(topic_id) if topic_id else topic  # topics have no ids before Kafka 2.8
    identity = f"{found.cluster_id or 'unknown'}/{name}"
    configs = source.describe_configs([topic])[topic]
    return Source(identity, topic_id, len(known.partitions), configs)


def mirror_configs(target: BlockingClient, topic: str) -> dict[str, ConfigEntry] | None:
    """The configs of the mirrored topic; None: there is no such topic."""
    known = target.metadata([topic]).topics[topic]
    if known.error_code is ErrorCode.unknown_topic_or_partition:
        return None
    return target.describe_configs([topic])[topic]


def check_target(
    source: Source, target: BlockingClient, topic: str
) -> dict[str, ConfigEntry] | None:
    """The configs of the topic's mirror; None: there is no such topic. Raises UserError for a topic
    that cannot be this source's mirror, and KafkaError."""
    found = mirror_configs(target, topic)
    if found is None:
        return None
    # A topic of clients must never become a mirror: its records would have to go.
    identity = found[SOURCE].value if SOURCE in found else None
    if identity is None:
        raise UserError("the target cannot be mirrored into: its brokers are an older Josefine")
    if not identity:
        raise UserError(
            f"topic '{topic}' exists and is not a mirror: delete it, or mirror into another cluster"
        )
    if not found[SESSION].value:
        raise UserError(f"topic '{topic}' was cut over: clients may have written to it since")
    if identity != source.identity:
        raise UserError(
            f"topic '{topic}' mirrors {identity}, and the source has {source.identity}: it was "
            "deleted and created again. Delete the mirrored topic to mirror the new one"
        )
    return found


def claim(
    source: Source,
    target: BlockingClient,
    topic: str,
    session: str,
    *,
    replication_factor: int = -1,
) -> list[str]:
    """Make the topic a mirror of that source, written by this session alone; create it if it is
    missing. Returns the names of configs that are not served here. Raises UserError, KafkaError."""
    wanted, unserved = served(source.configs)
    found = check_target(source, target, topic)
    if found is None:
        configs = {**wanted, SOURCE: source.identity, SESSION: session}
        new = NewTopic(topic, source.partitions, replication_factor, configs)
        target.create_topics([new])
        return unserved
    target.alter_configs({topic: {**changes(wanted, found), SESSION: session}})
    has = target.partition_count(topic)
    if source.partitions > has:
        count = source.partitions
        target.run(lambda s, t, d: create_partitions(s, {topic: count}, False, t, d))
    return unserved


def is_current(target: BlockingClient, topic: str, session: str) -> bool:
    """Whether the topic still names this session."""
    found = mirror_configs(target, topic)
    return found is not None and found[SESSION].value == session


def sessions_of(target: BlockingClient, topics: Iterable[str]) -> dict[str, str]:
    """The mirror session of each of these topics that exists; empty: it is no mirror."""
    names = list(topics)
    known = target.metadata(names).topics
    there = [name for name in names if known[name].error_code is ErrorCode.none]
    found = target.describe_configs(there) if there else {}
    return {name: configs[SESSION].value or "" for name, configs in found.items()}


def notes_of(target: BlockingClient, topic: str) -> dict[int, Notes]:
    """The source's epochs of the mirrored batches, by partition. Raises KafkaError."""
    found = mirror_configs(target, topic) or {}
    return parse((found[EPOCHS].value or "") if EPOCHS in found else "")


def keep_notes(
    target: BlockingClient, topic: str, session: str, notes: Mapping[int, Notes]
) -> None:
    """Keep the source's epochs with the topic. Raises KafkaError, also if another session has
    it."""
    until_s = time.monotonic() + NAMED_S
    while True:
        found = mirror_configs(target, topic) or {}
        if EPOCHS not in found:
            return  # its brokers are older
        if found[SESSION].value == session:
            target.alter_configs({topic: {EPOCHS: render(notes)}})
            return
        if time.monotonic() > until_s:
            text = f"topic '{topic}' names another mirror session"
            raise KafkaError(ErrorCode.policy_violation, text)
        time.sleep(0.05)  # a broker that lags names the session before


def _epoch_ends(
    wanted: Mapping[TopicPartition, int], session: Session, now_ms: int, deadline_ms: int
) -> Operation[dict[TopicPartition, tuple[int, int]]]:
    return epoch_ends(session, wanted, now_ms, deadline_ms)


def answers_of(source: BlockingClient, tp: TopicPartition, epochs: Iterable[int]) -> Answers:
    """What the source knows of these epochs. Raises KafkaError."""
    ends = {}
    for epoch in epochs:
        wanted = {tp: epoch}
        ends[epoch] = source.run(partial(_epoch_ends, wanted))[tp]
    start = source.list_offsets({tp: EARLIEST})[tp]
    return Answers(start.offset, start.leader_epoch, ends)


def leaders_of(
    source: BlockingClient, partitions: Iterable[TopicPartition], look_ms: int | None = None
) -> dict[TopicPartition, int]:
    """The leader epoch of each, as its leader has it; with `look_ms`, of those that have a leader,
    who must answer so soon. Raises KafkaError."""
    tps = list(partitions)
    if look_ms is not None:
        known = source.metadata(sorted({tp.topic for tp in tps}), timeout_ms=look_ms)
        tps = [tp for tp in tps if known.routing_error(tp) is ErrorCode.none]
    found = source.list_offsets(dict.fromkeys(tps, LATEST), timeout_ms=look_ms) if tps else {}
    return {tp: each.leader_epoch for tp, each in found.items()}


def was_cut_over(target: BlockingClient, topic: str) -> bool:
    """Whether clients write to this topic, which was a mirror."""
    found = mirror_configs(target, topic)
    return found is not None and bool(found[SOURCE].value) and not found[SESSION].value


def release(target: BlockingClient, topic: str, ends: Mapping[int, int]) -> None:
    """End the mirror: clients may write from these offsets on."""
    text = ",".join(f"{index}:{end}" for index, end in sorted(ends.items()))
    changes = {SESSION: None, ENDS: text}
    if END_EPOCHS in (mirror_configs(target, topic) or {}):  # else its brokers are older
        epochs = leaders_of(target, [TopicPartition(topic, index) for index in sorted(ends)])
        changes[END_EPOCHS] = ",".join(f"{tp.partition}:{each}" for tp, each in epochs.items())
    target.alter_configs({topic: changes})


def ends_of(
    client: BlockingClient,
    partitions: Iterable[TopicPartition],
    *,
    stable: bool = False,
    look_ms: int | None = None,
) -> dict[TopicPartition, Ends]:
    """Log start and high watermark of each; `stable`: the last stable offset instead of it.
    `look_ms`: how soon each question must be answered. Raises KafkaError."""
    tps = list(partitions)
    starts = client.list_offsets(dict.fromkeys(tps, EARLIEST), timeout_ms=look_ms)
    isolation = READ_COMMITTED if stable else 0
    ends = client.list_offsets(
        dict.fromkeys(tps, LATEST), isolation_level=isolation, timeout_ms=look_ms
    )
    return {tp: Ends(starts[tp].offset, ends[tp].offset) for tp in tps}


def read_at(client: BlockingClient, tp: TopicPartition, offset: int) -> memoryview | None:
    """The batches from the one with this offset on; None: the offset is out of range, as retention
    has deleted it. Raises KafkaError where they cannot be read: a mirror must not take that for
    another history."""
    found = client.fetch({tp: offset}, partition_bytes_max=1 << 20, max_wait_ms=0)
    fetched = found.get(tp)
    code = ErrorCode.request_timed_out if fetched is None else fetched.error_code
    if code is ErrorCode.offset_out_of_range:
        return None
    if fetched is None or code is not ErrorCode.none:
        raise KafkaError(code, f"{tp} cannot be read at offset {offset}: {code.name}")
    return memoryview(fetched.records)


def read_whole(client: BlockingClient, tp: TopicPartition, offset: int) -> memoryview | None:
    """Like `read_at`, of a topic from which only retention removes records: a batch that is missing
    is a damaged one, which is being repaired. Raises KafkaError for it, too."""
    found = read_at(client, tp, offset)
    if found is not None and not found:
        what = f"{tp} has no readable batch at offset {offset}: is a repair running there?"
        raise KafkaError(ErrorCode.kafka_storage_error, what)
    return found


def delete_before(client: BlockingClient, offsets: Mapping[TopicPartition, int]) -> None:
    """Follow the source's log start. A topic that only compacts keeps batches without records
    there instead, as DeleteRecords is not for it."""
    try:
        client.delete_records(offsets)
    except KafkaError as error:
        if error.code not in (ErrorCode.policy_violation, ErrorCode.offset_out_of_range):
            raise
