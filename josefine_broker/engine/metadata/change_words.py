"""One-line descriptions of metadata changes for people, as `/cluster/chain` shows them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from josefine_broker.base.acls import Acl, PatternType
from josefine_broker.engine.metadata.changes import (
    AllocateProducerIds,
    AlterAcls,
    AlterCredentials,
    AlterGroupConfig,
    AlterIsr,
    AlterQuotas,
    AlterTopicConfig,
    Change,
    CreatePartitions,
    CreateTopic,
    Decision,
    DeleteTopic,
    IsrItem,
    PartitionState,
    ReassignItem,
    ReassignPartitions,
    RegisterBroker,
    SetFeatures,
    UnregisterBroker,
)
from josefine_broker.engine.metadata.image import NO_LEADER
from josefine_broker.engine.metadata.log_completeness import Completeness

PARTS_MAX = 4
"""Partitions or brokers that a line names; the rest is counted."""

Names = Mapping[str, str]
"""Topic id (hex) → name. A deleted topic is shown by the first digits of its id."""


def describe_change(change: Change, names: Names) -> str:
    """One line without a full stop: what is requested. The image shows whether it was applied."""
    return _WORDS[type(change)](change, names)


def _join(parts: Iterable[str]) -> str:
    """A list for one line: an election may move thousands of partitions."""
    all_parts = list(parts)
    shown = ", ".join(all_parts[:PARTS_MAX])
    more = len(all_parts) - PARTS_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _ids(brokers: Iterable[int]) -> str:
    """Without spaces, so that a list stays one word for grep."""
    return "[" + ",".join(map(str, brokers)) + "]"


def _topic(topic_id: Any, names: Names) -> str:
    """The topic's name; the start of its id after it was deleted."""
    return names.get(topic_id.hex, topic_id.hex[:8])


def _partition(item: PartitionState | IsrItem | ReassignItem, names: Names) -> str:
    """As in log lines: topic-partition."""
    return f"{_topic(item.topic_id, names)}-{item.partition}"


def _register(change: RegisterBroker, _: Names) -> str:
    """The port identifies a broker on one machine; on several, its id does."""
    where = str(change.endpoints[0].port) if change.endpoints else "no listener"
    return f"register broker {change.broker_id} (port {where}{_found(change)})"


def _found(change: RegisterBroker) -> str:
    """The completeness of the logs that it reports."""
    if change.logs is None:
        return "" if change.clean else ", not closed cleanly"
    counts = Counter(each.value for each in change.logs.logs.values())
    told = [f", {_count(count, 'log')} {value}" for value, count in sorted(counts.items())]
    if change.logs.default is not Completeness.COMPLETE:
        told.append(f", others {change.logs.default.value}")
    return "".join(told)


def _unregister(change: UnregisterBroker, _: Names) -> str:
    return f"remove broker {change.broker_id}"


def _decision(change: Decision, names: Names) -> str:
    """The controller's reason first: it is what a reader of the chain looks for."""
    parts = [_partition_state(each, names) for each in change.partitions]
    return f"controller: {change.reason}" + (f": {_join(parts)}" if parts else "")


def _partition_state(state: PartitionState, names: Names) -> str:
    """Leader and ISR after the decision; the chain's earlier lines have those before it."""
    leader = "none" if state.leader == NO_LEADER else str(state.leader)
    return f"{_partition(state, names)} leader {leader} isr {_ids(state.isr)}"


def _alter_isr(change: AlterIsr, names: Names) -> str:
    """The ISRs that a leader asked for: the image may have refused some."""
    items = _join(f"{_partition(each, names)} {_ids(each.isr)}" for each in change.items)
    return f"isr by broker {change.broker_id}: {items}"


def _reassign(change: ReassignPartitions, names: Names) -> str:
    """The target replicas; the moves that follow are the controller's decisions."""

    def words(item: ReassignItem) -> str:
        to = "cancel" if item.target is None else f"to {_ids(item.target)}"
        return f"{_partition(item, names)} {to}"

    return f"reassign {_join(words(each) for each in change.items)}"


def _features(change: SetFeatures, _: Names) -> str:
    return "features " + _join(f"{each.name}={each.level}" for each in change.levels)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _create(change: CreateTopic, _: Names) -> str:
    """Partitions times the largest number of replicas."""
    copies = max(map(len, change.replicas), default=0)
    return f"create topic {change.name}, {_count(len(change.replicas), 'partition')} x {copies}"


def _delete(change: DeleteTopic, names: Names) -> str:
    return f"delete topic {_topic(change.topic_id, names)}"


def _widen(change: CreatePartitions, names: Names) -> str:
    more = _count(len(change.replicas), "more partition")
    return f"topic {_topic(change.topic_id, names)} gets {more}"


def _configure(change: AlterTopicConfig, names: Names) -> str:
    parts = [f"{name}={value}" for name, value in change.assign]
    parts += [f"{name} back to its default" for name in change.remove]
    return f"configure topic {_topic(change.topic_id, names)}: {_join(parts)}"


def _producer_ids(change: AllocateProducerIds, _: Names) -> str:
    last = change.first_id + change.count - 1
    return f"producer ids {change.first_id} to {last} for broker {change.broker_id}"


def _acls(change: AlterAcls, _: Names) -> str:
    parts = [_acl(each) for each in change.add]
    parts += [f"removed: {_acl(each)}" for each in change.remove]
    return f"access: {_join(parts)}"


def _credentials(change: AlterCredentials, _: Names) -> str:
    """Users and mechanisms, never a salt or a key."""
    parts = [f"{each.user} by {each.mechanism}" for each in change.put]
    parts += [f"{user} by {mechanism} removed" for user, mechanism in change.remove]
    return f"passwords: {_join(parts)}"


def _quotas(change: AlterQuotas, _: Names) -> str:
    """Numbers as they were set: 15 digits are all that a double holds."""
    parts = (
        f"{entity}: " + (f"{key} removed" if value is None else f"{key}={value:.15g}")
        for entity, key, value in change.quotas
    )
    return f"quotas: {_join(parts)}"


def _group_config(change: AlterGroupConfig, _: Names) -> str:
    parts = [f"{name}={value}" for name, value in change.assign]
    parts += [f"{name} back to its default" for name in change.remove]
    return f"configure group {change.group_id}: {_join(parts)}"


def _acl(acl: Acl) -> str:
    """In the order of a sentence; a prefix ends in an asterisk."""
    rest = "*" if acl.pattern is PatternType.PREFIXED else ""
    permission, operation = acl.permission.name.lower(), acl.operation.name.lower()
    kind = acl.resource_type.name.lower()
    return f"{permission} {acl.principal} to {operation} {kind} {acl.name}{rest}"


_WORDS: dict[type[Any], Callable[[Any, Names], str]] = {
    RegisterBroker: _register,
    UnregisterBroker: _unregister,
    Decision: _decision,
    AlterIsr: _alter_isr,
    ReassignPartitions: _reassign,
    SetFeatures: _features,
    CreateTopic: _create,
    DeleteTopic: _delete,
    CreatePartitions: _widen,
    AlterTopicConfig: _configure,
    AllocateProducerIds: _producer_ids,
    AlterAcls: _acls,
    AlterCredentials: _credentials,
    AlterQuotas: _quotas,
    AlterGroupConfig: _group_config,
}
