"""What people are told of a broker's place: whom it waits for, and why. Text only."""

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
    """Why this data cannot be of the cluster that the configuration would form, whose voters are
    `named`; empty: they fit.

    Members change in a cluster's life, and the list in the file gets old. It names another cluster
    where this broker's is it alone, and none of the others it lists ever was in it.
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
    """Whom a broker without a leader waits for, why it does not reach them, and whether its file,
    which would form a cluster of `forms_with`, lets one expect that."""
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
    """Whom a broker waits for that has registered, or is about to. Who cannot write may wait long:
    it asks the controller to lead nothing, as one that stops does."""
    waits = f"waiting for the controller, broker {leader}, to take this broker in"
    return (
        f"{waits}, which it does once this is over: {storage_trouble}" if storage_trouble else waits
    )


def waits_to_join(seeds: Iterable[object], trouble: str) -> str:
    """Where a broker looks for a cluster, and what came of it."""
    where = ", ".join(str(each) for each in seeds)
    return f"waiting for a cluster to join at {where}{f' ({trouble})' if trouble else ''}"


def leaving(storage_trouble: str) -> str:
    """Why a broker leads nothing that another could."""
    if storage_trouble:
        return f"this broker hands over and comes back when this is over: {storage_trouble}"
    return "this broker hands over and stops"


def no_controller(voters: Collection[int], there: int) -> str:
    """Why nothing is decided, where so many of the voters are there."""
    return (
        f"no controller: {there} of the voters {_ids(voters)} {'is' if there == 1 else 'are'} there"
    )


def _ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
