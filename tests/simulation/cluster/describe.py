"""A block as one line of a trace: which change, and what matters of it."""

from josefine_broker.engine.metadata.changes import (
    AlterIsr,
    Change,
    CreateTopic,
    Decision,
    ReassignPartitions,
    RegisterBroker,
)

__all__ = ["describe"]


def describe(change: Change | None) -> str:
    """The change in a block; None: a snapshot came."""
    match change:
        case None:
            return "snapshot"
        case RegisterBroker():
            said = f"{change.incarnation}{'' if change.clean else ' unclean'}"
        case Decision():
            states = [
                f"{str(each.topic_id)[:4]}-{each.partition} {each.partition_epoch}: "
                f"leader {each.leader} {each.leader_epoch} isr {each.isr} elr {each.elr}"
                for each in change.partitions
            ]
            said = f"of term {change.controller_term}: {change.reason}; {', '.join(states)}"
        case AlterIsr():
            items = [
                f"{str(each.topic_id)[:4]}-{each.partition} {each.partition_epoch}: "
                f"isr {each.isr} elr {each.elr}"
                for each in change.items
            ]
            said = ", ".join(items)
        case CreateTopic():
            said = f"{change.name} {str(change.topic_id)[:4]} {change.replicas}"
        case ReassignPartitions():
            said = str([(str(each.topic_id)[:4], *each[1:]) for each in change.items])
        case _:
            said = ""
    return f"{type(change).__name__} {said}"
