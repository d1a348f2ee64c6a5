"""Status texts for operators: what a broker waits for, and why. Text only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from josefine_broker.engine.metadata.image import MetadataImage


def other_cluster(
    own: int,
    named: Collection[int],
    members: Collection[int],
    image: MetadataImage,
    data_directory: str,
) -> str:
    """Why this data cannot belong to the cluster that the configuration would form, whose voters
    are `named`; empty: they fit.

    Members change over a cluster's lifetime, and the configured list goes out of date. The lists
    name different clusters if this broker is the only member of its own, and none of the other
    configured voters was ever in it.
    """
    others = set(named) - {own}
    met = image.brokers.keys() | image.unregistered
    if not others or set(members) != {own} or others & met:
        return ""
    return (
        f"raft.voters names the brokers {_ids({own, *others})}, but the data directory "
        f"{data_directory} holds a cluster whose only voter is {own} and that never met "
        "the others: set another broker.data_dir, or leave raft.voters out"
    )


def waits_for_voters(
    own: int,
    forms_with: Collection[int],
    voters: Collection[int],
    data_directory: str,
    trouble_with: Callable[[int], str],
) -> str:
    """The voters that a broker without a leader waits for, and why it does not reach them. Also
    whether its configuration, which would form a cluster of `forms_with`, contradicts that."""
    waits = f"waiting for a majority of the voters {_ids(voters)}"
    known = [(each, trouble_with(each)) for each in sorted(voters)]
    unreached = "; ".join(f"broker {each} at {trouble}" for each, trouble in known if trouble)
    why = f" ({unreached})" if unreached else ""
    if set(voters) > {own} == set(forms_with):
        return (
            f"{waits} of the cluster in {data_directory} to elect a leader; "
            f"the configuration (raft.voters) names only this broker{why}"
        )
    return f"{waits} to elect a leader{why}"


def waits_for_controller(leader: int, storage_trouble: str) -> str:
    """What a registered broker waits for. A broker that cannot write may wait for long: it asks the
    controller to lead nothing, as one that is stopping does."""
    waits = f"waiting for the controller, broker {leader}, to unfence this broker"
    return (
        f"{waits}, which happens after this is resolved: {storage_trouble}"
        if storage_trouble
        else waits
    )


def waits_to_join(seeds: Iterable[object], trouble: str) -> str:
    """Where a broker looks for a cluster to join, and the last failure."""
    where = ", ".join(str(each) for each in seeds)
    return f"waiting for a cluster to join at {where}{f' ({trouble})' if trouble else ''}"


def leaving(storage_trouble: str) -> str:
    """Why a broker gives up its leaderships."""
    if storage_trouble:
        return f"this broker hands over until this is resolved: {storage_trouble}"
    return "this broker hands over and stops"


def no_controller(voters: Collection[int], there: int) -> str:
    """Why no decision is made, and how many of the voters are connected."""
    return (
        f"no controller: {there} of the voters {_ids(voters)} {'is' if there == 1 else 'are'} there"
    )


def _ids(brokers: Iterable[int]) -> str:
    """Broker ids in order, for a sentence."""
    return ", ".join(map(str, sorted(brokers)))
