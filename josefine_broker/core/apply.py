"""`apply`: the image after a change. Pure: equal images and blocks give equal images everywhere.

Rules: it checks and sets values, it never elects or places. A change that no longer fits (two
creations of one name raced) raises KafkaError, on every broker alike, and the image stays; single
entries of a Decision or an AlterIsr that no longer fit are skipped. Two effects no block spells
out. A registration ends every leadership of the incarnation before, so that no leader epoch is ever
shared by two processes, of which the first may have written what the second has lost. And a doubt
about a replica's log, which a registration brings, stays until that replica was seen to have caught
up, or leads.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.changes import (
    AllocateProducerIds,
    AlterIsr,
    AlterTopicConfig,
    At,
    Change,
    CreatePartitions,
    CreateTopic,
    Decision,
    DeleteTopic,
    FeatureLevel,
    IsrItem,
    PartitionState,
    ReassignItem,
    ReassignPartitions,
    RegisterBroker,
    Replicas,
    SetFeatures,
    UnregisterBroker,
)
from josefine_broker.core.elections import is_clean
from josefine_broker.core.features import check_level, understands
from josefine_broker.core.image import (
    NO_LEADER,
    BrokerEntry,
    Doubt,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
)
from josefine_broker.core.log_completeness import Completeness, LogClaims
from josefine_broker.core.reassignment import check_target, retarget

MIN_INSYNC = "min.insync.replicas"

Item = TypeVar("Item", PartitionState, IsrItem, ReassignItem)


def apply(image: MetadataImage, change: Change, at: At) -> MetadataImage:
    """The image after the block at `at`. Raises KafkaError when the change no longer fits."""
    match change:
        case AlterIsr():
            return _alter_isr(image, change)
        case Decision():
            return _decision(image, change, at)
        case CreateTopic():
            return _create_topic(image, change)
        case DeleteTopic(topic_id=topic_id):
            topic = _topic(image, topic_id)
            topics = {name: each for name, each in image.topics.items() if name != topic.name}
            names = {key: name for key, name in image.topic_names.items() if key != topic_id}
            return replace(image, topics=topics, topic_names=names)
        case CreatePartitions():
            return _create_partitions(image, change)
        case AlterTopicConfig():
            return _alter_config(image, change)
        case ReassignPartitions():
            return _reassign(image, change)
        case SetFeatures(levels=levels):
            return _set_features(image, levels, at)
        case AllocateProducerIds(first_id=first_id, count=count):
            if first_id != image.next_producer_id:
                raise KafkaError(
                    ErrorCode.coordinator_load_in_progress,
                    f"producer ids from {first_id} are taken, next is {image.next_producer_id}",
                )
            return replace(image, next_producer_id=first_id + count)
        case RegisterBroker():
            return _register(image, change, at)
        case UnregisterBroker(broker_id=broker_id):
            return _unregister(image, broker_id)


# -- brokers


def _register(image: MetadataImage, change: RegisterBroker, at: At) -> MetadataImage:
    broker_id = change.broker_id
    known = image.brokers.get(broker_id)
    if known is not None and known.incarnation == change.incarnation:
        return image  # the same process asked twice, not knowing what came of the first time
    epoch = -1 if known is None else known.epoch
    if change.known_epoch not in (None, epoch):
        raise KafkaError(
            ErrorCode.stale_broker_epoch,
            f"broker {broker_id} has registered since, now its epoch is {epoch}",
        )
    _check_features(image, change)
    claims = _claims(image, change, known)
    is_clean_disk = known is None or (change.clean and change.previous_epoch == known.epoch)
    broker = BrokerEntry(
        broker_id=broker_id,
        endpoints=change.endpoints,
        rack=change.rack,
        epoch=at.height,
        incarnation=change.incarnation,
        unclean=claims is None and not is_clean_disk,
        raft=change.raft,
        admin=change.admin,
        features=change.features,
    )
    if not image.brokers and not image.features:
        # The first broker of all finalizes what it understands.
        levels = {each.name: each.max_level for each in change.features}
        image = replace(image, features=levels, features_epoch=at.height)
    image = replace(
        image,
        brokers={**image.brokers, broker_id: broker},
        unregistered=image.unregistered - {broker_id},
    )
    return _end_leaderships(image, broker_id, claims or LogClaims())


def _claims(
    image: MetadataImage, change: RegisterBroker, known: BrokerEntry | None
) -> LogClaims | None:
    """What is to be believed of each of its logs; None: only the whole broker is judged."""
    if known is None or not image.keeps_doubts:
        return None
    if change.logs is not None:
        is_the_same_disk = change.previous_epoch == known.epoch
        return change.logs if is_the_same_disk else change.logs.at_best(Completeness.UNSYNCED)
    # Without an image it has lost its metadata, and who knows what else with it.
    return LogClaims(default=Completeness.MISSING) if change.known_epoch is None else None


def _check_features(image: MetadataImage, change: RegisterBroker) -> None:
    for name, level in sorted(image.features.items()):
        if not understands(change.features, name, level):
            raise KafkaError(
                ErrorCode.unsupported_version,
                f"the cluster is at {name} {level}, which broker {change.broker_id} does not "
                "understand",
            )


def _set_features(image: MetadataImage, levels: tuple[FeatureLevel, ...], at: At) -> MetadataImage:
    features = dict(image.features)
    for wanted in levels:
        name, previous, level = wanted
        known = features.get(name, 0)
        if known != previous:
            raise KafkaError(
                ErrorCode.invalid_update_version, f"'{name}' is at {known} by now, not {previous}"
            )
        check_level(image.brokers.values(), wanted)
        features[name] = level
    features = {name: level for name, level in features.items() if level}
    raised = replace(image, features=features, features_epoch=at.height)
    if raised.keeps_doubts and not image.keeps_doubts:
        # Which elections before were unclean nobody noted: each may have been.
        return _each_partition(
            raised, lambda _, __, entry: replace(entry, unclean_epoch=entry.leader_epoch)
        )
    return raised


def _end_leaderships(image: MetadataImage, broker_id: int, claims: LogClaims) -> MetadataImage:
    """A new process of that broker leads nothing, and its logs are what it says they are."""

    def ended(topic_id: UUID, index: int, entry: PartitionEntry) -> PartitionEntry:
        if broker_id not in entry.replicas:
            return entry
        doubts = _doubts(entry, broker_id, claims.of((topic_id, index)))
        leads = entry.leader == broker_id
        if not leads and doubts == entry.doubts:
            return entry
        return replace(
            entry,
            leader=NO_LEADER if leads else entry.leader,
            leader_epoch=entry.leader_epoch + leads,
            partition_epoch=entry.partition_epoch + 1,
            doubts=doubts,
        )

    return _each_partition(image, ended)


def _doubts(entry: PartitionEntry, broker_id: int, claim: Completeness) -> tuple[Doubt, ...]:
    """The entry's doubts with what a new process says of its log. What a loss of power may have
    taken from a replica that counts nowhere is no news: it fetches before it does."""
    found = claim.after(entry.completeness_of(broker_id))
    others = tuple(each for each in entry.doubts if each.broker_id != broker_id)
    counts = broker_id in entry.isr or broker_id in entry.elr
    if found is Completeness.COMPLETE or (found.may_lead and not counts):
        return others
    return tuple(sorted((*others, Doubt(broker_id, found)), key=lambda each: each.broker_id))


def check_unregister(image: MetadataImage, broker_id: int) -> None:
    """Raises KafkaError: the broker cannot be forgotten now."""
    if broker_id not in image.brokers:
        raise KafkaError(ErrorCode.broker_id_not_registered, f"no broker {broker_id}")
    held = sum(
        broker_id in entry.replicas for topic in image.topics.values() for entry in topic.partitions
    )
    if held:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"broker {broker_id} holds replicas of {held} partitions: reassign them first",
        )
    if len(image.brokers) == 1:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"broker {broker_id} is the last of its cluster, which would end with it",
        )


def _unregister(image: MetadataImage, broker_id: int) -> MetadataImage:
    check_unregister(image, broker_id)
    brokers = {key: broker for key, broker in image.brokers.items() if key != broker_id}
    return replace(image, brokers=brokers, unregistered=image.unregistered | {broker_id})


# -- partitions: decisions of the controller and of partition leaders


def _decision(image: MetadataImage, change: Decision, at: At) -> MetadataImage:
    if change.controller_term != at.term:
        raise KafkaError(
            ErrorCode.not_controller,
            f"decided in term {change.controller_term}, now is term {at.term}",
        )
    brokers = dict(image.brokers)
    for state in change.brokers:
        known = brokers.get(state.broker_id)
        if known is not None and known.epoch == state.epoch:
            brokers[state.broker_id] = replace(
                known,
                fenced=state.fenced,
                shutting_down=state.shutting_down,
                unclean=state.unclean,
            )
    image = replace(image, brokers=brokers)

    def decided(entry: PartitionEntry, state: PartitionState) -> PartitionEntry:
        if not _decision_fits(image, entry, state):
            return entry
        return PartitionEntry(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=entry.partition_epoch + 1,
            replicas=state.replicas,
            isr=state.isr,
            adding=state.adding,
            removing=state.removing,
            elr=state.elr,
            doubts=_doubts_left(entry, state),
            unclean_epoch=_unclean_epoch(image, entry, state),
        )

    return _with_items(image, change.partitions, decided)


def _doubts_left(entry: PartitionEntry, state: PartitionState) -> tuple[Doubt, ...]:
    """A leader's log is by definition the partition's; the others in doubt have yet to copy it."""
    return tuple(
        each
        for each in entry.doubts
        if each.broker_id in state.replicas and each.broker_id != state.leader
    )


def _unclean_epoch(image: MetadataImage, entry: PartitionEntry, state: PartitionState) -> int:
    is_new = state.leader != NO_LEADER and state.leader_epoch > entry.leader_epoch
    if not image.keeps_doubts or not is_new:
        return entry.unclean_epoch
    unclean = frozenset(key for key, broker in image.brokers.items() if broker.unclean)
    return entry.unclean_epoch if is_clean(entry, state.leader, unclean) else state.leader_epoch


def _decision_fits(image: MetadataImage, entry: PartitionEntry, state: PartitionState) -> bool:
    if state.partition_epoch != entry.partition_epoch:
        return False
    if state.leader_epoch == entry.leader_epoch + 1:
        # Elected without a look at a registration that came in between: it may lead nothing yet.
        return state.leader == NO_LEADER or image.is_live(state.leader)
    return (state.leader, state.leader_epoch) == (entry.leader, entry.leader_epoch)


def _alter_isr(image: MetadataImage, change: AlterIsr) -> MetadataImage:
    proposer = image.brokers.get(change.broker_id)
    if proposer is None or proposer.epoch != change.broker_epoch:
        raise KafkaError(
            ErrorCode.stale_broker_epoch,
            f"broker {change.broker_id} of epoch {change.broker_epoch} is not the current one",
        )

    def altered(entry: PartitionEntry, item: IsrItem) -> PartitionEntry:
        if not _isr_fits(image, change.broker_id, entry, item):
            return entry
        joined = {each for each in item.isr if each not in entry.isr}
        return replace(
            entry,
            isr=item.isr,
            elr=item.elr,
            partition_epoch=entry.partition_epoch + 1,
            doubts=tuple(each for each in entry.doubts if each.broker_id not in joined),
        )

    return _with_items(image, change.items, altered)


def _isr_fits(image: MetadataImage, broker_id: int, entry: PartitionEntry, item: IsrItem) -> bool:
    if (item.leader_epoch, item.partition_epoch) != (entry.leader_epoch, entry.partition_epoch):
        return False
    if entry.leader != broker_id or broker_id not in item.isr:
        return False
    for member in item.isr:
        # A broker about to stop may stay until its leaderships have moved; it does not come back.
        known = image.brokers.get(member)
        if known is None or known.fenced or member not in entry.replicas:
            return False
        if member not in entry.isr and not known.is_live:
            return False
        if member not in entry.isr and (member, known.epoch) not in item.joined:
            return False  # of another incarnation than the one that had caught up
    # A leader cannot make eligible whom it did not have in sync.
    return set(item.elr) <= {*entry.isr, *entry.elr} - {*item.isr}


def _reassign(image: MetadataImage, change: ReassignPartitions) -> MetadataImage:
    def moved(entry: PartitionEntry, item: ReassignItem) -> PartitionEntry:
        try:
            if item.target is not None:
                check_target(item.target, image.brokers)
            made = retarget(entry, item.target)
        except KafkaError:
            return entry
        if made == entry:
            return entry
        return replace(made, partition_epoch=entry.partition_epoch + 1)

    return _with_items(image, change.items, moved)


# -- topics


def _topic(image: MetadataImage, topic_id: UUID) -> TopicEntry:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no topic with id {topic_id}")
    return topic


def _create_topic(image: MetadataImage, change: CreateTopic) -> MetadataImage:
    if change.name in image.topics or change.topic_id in image.topic_names:
        raise KafkaError(ErrorCode.topic_already_exists, f"topic '{change.name}' already exists")
    topic = TopicEntry(
        name=change.name,
        topic_id=change.topic_id,
        partitions=_new_partitions(image, change.replicas, change.offline),
        config=tuple(sorted(change.config)),
    )
    names = {**image.topic_names, topic.topic_id: topic.name}
    return replace(_with_topic(image, topic), topic_names=names)


def _create_partitions(image: MetadataImage, change: CreatePartitions) -> MetadataImage:
    topic = _topic(image, change.topic_id)
    if len(topic.partitions) != change.first_partition:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"topic '{topic.name}' has {len(topic.partitions)} partitions by now, "
            f"not {change.first_partition}",
        )
    new = _new_partitions(image, change.replicas, change.offline)
    return _with_topic(image, replace(topic, partitions=topic.partitions + new))


def _alter_config(image: MetadataImage, change: AlterTopicConfig) -> MetadataImage:
    topic = _topic(image, change.topic_id)
    config = {name: value for name, value in topic.config if name not in change.remove}
    config.update(change.assign)
    topic = replace(topic, config=tuple(sorted(config.items())))
    if MIN_INSYNC in (*change.remove, *(name for name, _ in change.assign)):
        topic = _with_partitions(topic, [_without_elr(each) for each in topic.partitions])
    return _with_topic(image, topic)


def _without_elr(entry: PartitionEntry) -> PartitionEntry:
    """Under another `min.insync.replicas` the high watermark may move on without them."""
    if not entry.elr:
        return entry
    return replace(
        entry, isr=entry.isr or entry.elr, elr=(), partition_epoch=entry.partition_epoch + 1
    )


def _new_partitions(
    image: MetadataImage, replicas: Replicas, offline: tuple[int, ...]
) -> tuple[PartitionEntry, ...]:
    unknown = {each for ids in replicas for each in ids} - image.brokers.keys()
    if unknown:
        raise KafkaError(ErrorCode.invalid_replica_assignment, f"unknown brokers {sorted(unknown)}")
    partitions = []
    for ids in replicas:
        isr = tuple(each for each in ids if each not in offline)
        leader = isr[0] if isr else NO_LEADER
        partitions.append(
            PartitionEntry(
                leader=leader, leader_epoch=0, partition_epoch=0, replicas=ids, isr=isr or ids
            )
        )
    return tuple(partitions)


# -- the image with some topics replaced


def _with_topic(image: MetadataImage, topic: TopicEntry) -> MetadataImage:
    return replace(image, topics={**image.topics, topic.name: topic})


def _with_topics(image: MetadataImage, topics: Iterable[TopicEntry]) -> MetadataImage:
    """Topics that are the same object stay out of it: an untouched image is returned as it is."""
    changed = {topic.name: topic for topic in topics if topic is not image.topics[topic.name]}
    return replace(image, topics={**image.topics, **changed}) if changed else image


def _each_partition(
    image: MetadataImage, make: Callable[[UUID, int, PartitionEntry], PartitionEntry]
) -> MetadataImage:
    return _with_topics(
        image,
        (
            _with_partitions(
                topic,
                [make(topic.topic_id, index, each) for index, each in enumerate(topic.partitions)],
            )
            for topic in image.topics.values()
        ),
    )


def _with_partitions(topic: TopicEntry, partitions: Sequence[PartitionEntry]) -> TopicEntry:
    same = all(a is b for a, b in zip(partitions, topic.partitions, strict=True))
    return topic if same else replace(topic, partitions=tuple(partitions))


def _with_items(
    image: MetadataImage,
    items: Iterable[Item],
    make: Callable[[PartitionEntry, Item], PartitionEntry],
) -> MetadataImage:
    """Each item's partition made anew; one copy per topic, however many of its partitions."""
    by_topic: dict[UUID, dict[int, Item]] = {}
    for item in items:
        by_topic.setdefault(item.topic_id, {})[item.partition] = item
    topics = []
    for topic_id, wanted in by_topic.items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            partitions = list(topic.partitions)
            for index, item in wanted.items():
                if 0 <= index < len(partitions):
                    partitions[index] = make(partitions[index], item)
            topics.append(_with_partitions(topic, partitions))
    return _with_topics(image, topics)
