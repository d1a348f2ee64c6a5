"""`apply`, the state transition of the metadata: image and change give the next image. Pure, so
that equal images and blocks give equal images on every broker.

Rules: it checks and sets values, it never elects or places. A change that no longer fits (two
creations of one name raced) raises KafkaError on every broker alike, and the image stays. Single
entries of a Decision or an AlterIsr that no longer fit are skipped. `metadata/registration.py`
applies registrations; a doubt about a replica's log, which a registration adds, stays until the
replica has caught up or becomes leader.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.acls import (
    ACLS_MAX,
    CREDENTIALS_MAX,
    GROUP_CONFIGS_MAX,
    QUOTAS_MAX,
)
from josefine_broker.engine.metadata.changes import (
    AllocateProducerIds,
    AlterAcls,
    AlterCredentials,
    AlterGroupConfig,
    AlterIsr,
    AlterQuotas,
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
from josefine_broker.engine.metadata.features import check_level
from josefine_broker.engine.metadata.image import (
    ACCESS_LEVEL,
    CLEANUP_POLICY,
    GROUP_CONFIGS_LEVEL,
    JOSEFINE_VERSION,
    NO_LEADER,
    QUOTAS_LEVEL,
    WAS_COMPACTED,
    Doubt,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
)
from josefine_broker.engine.metadata.image_edits import (
    each_partition,
    with_items,
    with_partitions,
    with_topic,
)
from josefine_broker.engine.metadata.leader_election import is_clean
from josefine_broker.engine.metadata.reassignment import check_target, drops_replicas, retarget
from josefine_broker.engine.metadata.registration import register, unregister

FIRST_EPOCH = LeaderEpoch(0)
"""Of a new partition. Kafka's, too: clients compare epochs from 0 on."""
MIN_INSYNC = "min.insync.replicas"


def apply(image: MetadataImage, change: Change, at: At) -> MetadataImage:
    """The image after the block at `at`. Raises KafkaError when the change no longer fits."""
    # Exhaustive: mypy reports a kind of change without a case, for which there would be no image.
    match change:
        case AlterIsr():
            return _alter_isr(image, change)
        case Decision():
            return _decision(image, change, at)
        case CreateTopic():
            return _create_topic(image, change)
        case DeleteTopic(topic_id=topic_id):
            topic = _topic(image, topic_id)
            # Both indexes change together: by name and by id.
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
            # Two brokers asked at once: one of them gets the block, the other asks again (KIP-730).
            if first_id != image.next_producer_id:
                raise KafkaError(
                    ErrorCode.coordinator_load_in_progress,
                    f"producer ids from {first_id} are allocated already, the next one is "
                    f"{image.next_producer_id}",
                )
            return replace(image, next_producer_id=first_id + count)
        case AlterAcls():
            return _alter_acls(image, change)
        case AlterCredentials():
            return _alter_credentials(image, change)
        case AlterQuotas():
            return _alter_quotas(image, change)
        case AlterGroupConfig():
            return _alter_group_config(image, change)
        case RegisterBroker():
            return register(image, change, at)
        case UnregisterBroker(broker_id=broker_id):
            return unregister(image, broker_id)


def _set_features(image: MetadataImage, levels: tuple[FeatureLevel, ...], at: At) -> MetadataImage:
    """Raise or lower levels. Raises KafkaError if another update came first (KIP-584), or if a
    broker does not support the level."""
    features = dict(image.features)
    for wanted in levels:
        name, previous, level = wanted
        known = features.get(name, 0)
        if known != previous:
            raise KafkaError(
                ErrorCode.invalid_update_version, f"'{name}' is at {known} now, not at {previous}"
            )
        check_level(image.brokers.values(), wanted, features)
        # One after another: a level may require that of another feature in the same request.
        features[name] = level
    # Level 0 is the absence of the feature.
    features = {name: level for name, level in features.items() if level}
    raised = replace(image, features=features, features_epoch=at.height)
    if raised.keeps_doubts and not image.keeps_doubts:
        # Nobody noted which earlier elections were unclean: each of them may have been.
        return each_partition(
            raised, lambda _, __, entry: replace(entry, unclean_epoch=entry.leader_epoch)
        )
    return raised


def _check_access(image: MetadataImage) -> None:
    """Below that level a broker of the older version could not read the block, and would stop."""
    if not image.keeps_access:
        raise KafkaError(
            ErrorCode.unsupported_version,
            f"ACLs and users need {JOSEFINE_VERSION} {ACCESS_LEVEL}: finalize that level first",
        )


def _alter_credentials(image: MetadataImage, change: AlterCredentials) -> MetadataImage:
    """Set and remove passwords. Raises KafkaError above the limit, which bounds the image's
    size.

    KIP-554. The proposer has salted and hashed the passwords: the chain, which every broker stores,
    never has a plain one.
    """
    _check_access(image)
    gone = frozenset(change.remove)
    left = {key: each for key, each in image.credentials.items() if key not in gone}
    # After the removals: a request may replace a password by removing and setting it.
    left |= {(user, mechanism): credential for user, mechanism, credential in change.put}
    if len(left) > CREDENTIALS_MAX:
        raise KafkaError(
            ErrorCode.policy_violation, f"a cluster can have at most {CREDENTIALS_MAX} credentials"
        )
    return replace(image, credentials=left)


def _alter_acls(image: MetadataImage, change: AlterAcls) -> MetadataImage:
    """Add and remove rules; adding a present one changes nothing. Raises KafkaError above the
    limit."""
    _check_access(image)
    # Removals count last: a rule in both lists is gone.
    acls = (image.acls | frozenset(change.add)) - frozenset(change.remove)
    if len(acls) > ACLS_MAX:
        raise KafkaError(ErrorCode.policy_violation, f"a cluster can have at most {ACLS_MAX} ACLs")
    return replace(image, acls=acls)


def _alter_quotas(image: MetadataImage, change: AlterQuotas) -> MetadataImage:
    """Set and remove bounds. Raises KafkaError above the limit.

    KIP-546. None as a value removes the bound.
    """
    if not image.keeps_quotas:
        raise KafkaError(
            ErrorCode.unsupported_version,
            f"quotas need {JOSEFINE_VERSION} {QUOTAS_LEVEL}: finalize that level first",
        )
    quotas = {entity: dict(bounds) for entity, bounds in image.quotas.items()}
    for entity, key, value in change.quotas:
        bounds = quotas.setdefault(entity, {})
        if value is None:
            bounds.pop(key, None)
        else:
            bounds[key] = value
    # An entity without bounds is no entry: equal quotas must give equal images.
    quotas = {entity: bounds for entity, bounds in quotas.items() if bounds}
    if len(quotas) > QUOTAS_MAX:
        raise KafkaError(
            ErrorCode.policy_violation, f"a cluster can have at most {QUOTAS_MAX} quotas"
        )
    return replace(image, quotas=quotas)


def check_keeps_group_configs(image: MetadataImage) -> None:
    """Raises KafkaError below that level. Checked before a change is proposed, too: a broker of
    the older version could not read the block, and would stop."""
    if not image.keeps_group_configs:
        raise KafkaError(
            ErrorCode.unsupported_version,
            f"configurations of groups need {JOSEFINE_VERSION} {GROUP_CONFIGS_LEVEL}: finalize"
            " that level first",
        )


def _alter_group_config(image: MetadataImage, change: AlterGroupConfig) -> MetadataImage:
    """Set and remove configurations of a group. Raises KafkaError above the limit."""
    check_keeps_group_configs(image)
    config = dict(image.group_configs.get(change.group_id, ()))
    config = {name: value for name, value in config.items() if name not in change.remove}
    config |= change.assign
    found = {key: each for key, each in image.group_configs.items() if key != change.group_id}
    # A group without any is no entry: equal configurations must give equal images.
    if config:
        found[change.group_id] = tuple(sorted(config.items()))
    if len(found) > GROUP_CONFIGS_MAX:
        message = f"a cluster can have configurations of at most {GROUP_CONFIGS_MAX} groups"
        raise KafkaError(ErrorCode.policy_violation, message)
    return replace(image, group_configs=found)


# -- partitions: decisions of the controller and of partition leaders


def _decision(image: MetadataImage, change: Decision, at: At) -> MetadataImage:
    """Apply what the controller decided. Entries that no longer fit are skipped: the controller
    sees that in the image and decides again."""
    # A deposed controller may still have a decision in flight. Its term differs from the term of
    # the block that carries it, and its view of the brokers is out of date.
    if change.controller_term != at.term:
        raise KafkaError(
            ErrorCode.not_controller,
            f"decided in term {change.controller_term}, the current term is {at.term}",
        )
    brokers = dict(image.brokers)
    for state in change.brokers:
        known = brokers.get(state.broker_id)
        # Another epoch is another process of that broker: the decision was about the one before.
        if known is not None and known.epoch == state.epoch:
            brokers[state.broker_id] = replace(
                known,
                fenced=state.fenced,
                shutting_down=state.shutting_down,
                unclean=state.unclean,
            )
    image = replace(image, brokers=brokers)

    def decided(entry: PartitionEntry, state: PartitionState) -> PartitionEntry:
        """The partition as the controller wants it, if it is still what the controller saw."""
        if not _decision_fits(image, entry, state):
            return entry
        # The next partition epoch: an ISR that a leader proposes for the one before is refused.
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

    return with_items(image, change.partitions, decided)


def _doubts_left(entry: PartitionEntry, state: PartitionState) -> tuple[Doubt, ...]:
    """The doubts after a decision: the leader's log defines the partition, the others in doubt
    still have to copy it."""
    return tuple(
        each
        for each in entry.doubts
        if each.broker_id in state.replicas and each.broker_id != state.leader
    )


def _unclean_epoch(
    image: MetadataImage, entry: PartitionEntry, state: PartitionState
) -> LeaderEpoch:
    """The epoch of the last unclean election: followers may then truncate acknowledged records."""
    is_new = state.leader != NO_LEADER and state.leader_epoch > entry.leader_epoch
    if not image.keeps_doubts or not is_new:
        return entry.unclean_epoch
    # KIP-966: a broker that did not stop cleanly may lack the end of its log, in the ISR or not.
    unclean = frozenset(key for key, broker in image.brokers.items() if broker.unclean)
    return entry.unclean_epoch if is_clean(entry, state.leader, unclean) else state.leader_epoch


def _decision_fits(image: MetadataImage, entry: PartitionEntry, state: PartitionState) -> bool:
    """Whether the partition is as the controller saw it: same partition epoch, and the leader
    kept or replaced in the next leader epoch."""
    # The epoch counts every change of the partition, by a leader too: the ISR may have shrunk since
    # (KIP-497).
    if state.partition_epoch != entry.partition_epoch:
        return False
    if state.leader_epoch == entry.leader_epoch + 1:
        # The controller may not have seen a registration in between: it must not lead then.
        return state.leader == NO_LEADER or image.is_live(state.leader)
    return (state.leader, state.leader_epoch) == (entry.leader, entry.leader_epoch)


def _alter_isr(image: MetadataImage, change: AlterIsr) -> MetadataImage:
    """Apply the ISRs that a leader proposes (KIP-497). Raises KafkaError for an earlier process
    of it."""
    proposer = image.brokers.get(change.broker_id)
    if proposer is None or proposer.epoch != change.broker_epoch:
        raise KafkaError(
            ErrorCode.stale_broker_epoch,
            f"broker {change.broker_id} is no longer registered with epoch {change.broker_epoch}",
        )

    def altered(entry: PartitionEntry, item: IsrItem) -> PartitionEntry:
        """The partition with the ISR of its leader. A replica that joins has copied the leader's
        log, which settles any doubt about its own."""
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

    return with_items(image, change.items, altered)


def _isr_fits(image: MetadataImage, broker_id: int, entry: PartitionEntry, item: IsrItem) -> bool:
    """Whether the proposal is of the present leader and epoch, and every new member may be in
    sync."""
    if (item.leader_epoch, item.partition_epoch) != (entry.leader_epoch, entry.partition_epoch):
        return False
    # A leader that leaves its own ISR would have nobody to count its log as committed.
    if entry.leader != broker_id or broker_id not in item.isr:
        return False
    for member in item.isr:
        # A broker that is about to stop may stay until its leaderships have moved, but not return.
        known = image.brokers.get(member)
        if known is None or known.fenced or member not in entry.replicas:
            return False
        if member not in entry.isr and not known.is_live:
            return False
        if member not in entry.isr and (member, known.epoch) not in item.joined:
            return False  # another incarnation than the one that had caught up (KIP-903)
    # Only replicas that were in sync can become eligible.
    return set(item.elr) <= {*entry.isr, *entry.elr} - {*item.isr}


def _reassign(image: MetadataImage, change: ReassignPartitions) -> MetadataImage:
    """Set the targets of partitions (KIP-455). Partitions whose target is not possible stay as
    they are."""

    def moved(entry: PartitionEntry, item: ReassignItem) -> PartitionEntry:
        """The partition on the way to its target. From level 2 on, a replica that is dropped ends
        the leader epoch: it must not acknowledge anything in it."""
        try:
            if item.target is not None:
                check_target(item.target, image.brokers)
            made = retarget(entry, item.target)
        except KafkaError:
            return entry
        if made == entry:
            return entry
        ends_epoch = image.keeps_doubts and drops_replicas(entry, made)  # from level 2 on
        return replace(
            made,
            partition_epoch=entry.partition_epoch + 1,
            leader_epoch=LeaderEpoch(entry.leader_epoch + ends_epoch),
        )

    return with_items(image, change.items, moved)


# -- topics


def _topic(image: MetadataImage, topic_id: UUID) -> TopicEntry:
    """The topic by id. Raises KafkaError: the name may meanwhile be another topic's."""
    topic = image.topic_by_id(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no topic with id {topic_id}")
    return topic


def _create_topic(image: MetadataImage, change: CreateTopic) -> MetadataImage:
    """Add a topic. Raises KafkaError for a name or id that exists."""
    if change.name in image.topics or change.topic_id in image.topic_names:
        raise KafkaError(ErrorCode.topic_already_exists, f"topic '{change.name}' already exists")
    topic = TopicEntry(
        name=change.name,
        topic_id=change.topic_id,
        partitions=_new_partitions(image, change.replicas, change.offline),
        # Sorted, so that images of equal content are equal bytes, which simulations compare.
        config=tuple(sorted(change.config)),
    )
    names = {**image.topic_names, topic.topic_id: topic.name}
    return replace(with_topic(image, topic), topic_names=names)


def _create_partitions(image: MetadataImage, change: CreatePartitions) -> MetadataImage:
    """Append partitions to a topic. Raises KafkaError if their number has changed since the
    proposal."""
    topic = _topic(image, change.topic_id)
    # Two requests that saw the same count: the second would add its partitions after those of the
    # first, and the topic would have more than either asked for.
    if len(topic.partitions) != change.first_partition:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"topic '{topic.name}' has {len(topic.partitions)} partitions now, "
            f"not {change.first_partition}",
        )
    new = _new_partitions(image, change.replicas, change.offline)
    return with_topic(image, replace(topic, partitions=topic.partitions + new))


def _compacts(config: Mapping[str, str]) -> bool:
    """Whether the cleaner may remove records of this topic by key."""
    return "compact" in config.get(CLEANUP_POLICY, "")


def _was_compacted(topic: TopicEntry) -> bool:
    """Whether the log may have holes, of this policy or of an earlier one."""
    config = dict(topic.config)
    return WAS_COMPACTED in config or _compacts(config)


def _alter_config(image: MetadataImage, change: AlterTopicConfig) -> MetadataImage:
    """Change a topic's configuration. That it was compacted is noted for good: its log keeps the
    holes."""
    topic = _topic(image, change.topic_id)
    config = {name: value for name, value in topic.config if name not in change.remove}
    config.update(change.assign)
    if image.cleans_logs and _was_compacted(topic) and not _compacts(config):
        config[WAS_COMPACTED] = "true"
    topic = replace(topic, config=tuple(sorted(config.items())))
    if MIN_INSYNC in (*change.remove, *(name for name, _ in change.assign)):
        topic = with_partitions(topic, [_without_elr(each) for each in topic.partitions])
    return with_topic(image, topic)


def _without_elr(entry: PartitionEntry) -> PartitionEntry:
    """Clear the ELR: with another `min.insync.replicas` the high watermark may advance without
    those replicas, which then lack committed records."""
    if not entry.elr:
        return entry
    # With an empty ISR, the ELR alone has the committed records: it becomes the ISR, or no replica
    # could be elected any more.
    return replace(
        entry, isr=entry.isr or entry.elr, elr=(), partition_epoch=entry.partition_epoch + 1
    )


def _new_partitions(
    image: MetadataImage, replicas: Replicas, offline: tuple[int, ...]
) -> tuple[PartitionEntry, ...]:
    """Partitions with their first leaders. The first replica that is not `offline` leads;
    without any the partition waits for one, with all replicas in sync, because there is no
    record yet."""
    unknown = {each for ids in replicas for each in ids} - image.brokers.keys()
    if unknown:
        raise KafkaError(ErrorCode.invalid_replica_assignment, f"unknown brokers {sorted(unknown)}")
    partitions = []
    for ids in replicas:
        isr = tuple(each for each in ids if each not in offline)
        leader = isr[0] if isr else NO_LEADER
        partitions.append(
            PartitionEntry(
                leader=leader,
                leader_epoch=FIRST_EPOCH,
                partition_epoch=0,
                replicas=ids,
                isr=isr or ids,
            )
        )
    return tuple(partitions)
