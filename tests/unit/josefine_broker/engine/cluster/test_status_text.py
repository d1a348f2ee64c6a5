"""What people are told of a broker's place is the right sentence."""

import pytest

from josefine_broker.engine.cluster.status_text import (
    leaving,
    no_controller,
    other_cluster,
    waits_for_controller,
    waits_for_voters,
)
from josefine_broker.engine.metadata.image import BrokerEntry, MetadataImage


def _image(*brokers: int, unregistered: tuple[int, ...] = ()) -> MetadataImage:
    entries = {each: BrokerEntry(broker_id=each, endpoints=()) for each in brokers}
    return MetadataImage(cluster_id="c", brokers=entries, unregistered=frozenset(unregistered))


def test_data_of_a_broker_alone_are_refused_where_others_are_to_vote_with_it() -> None:
    """Else it takes up its own old cluster in silence, and the others form one without it."""
    trouble = other_cluster(1, {1, 2, 3}, {1}, _image(1), "d")

    assert trouble.startswith("raft.voters names the brokers 1, 2, 3, but the data directory d ")
    assert "only voter is 1 " in trouble


@pytest.mark.parametrize(
    ("voters", "members", "image"),
    [
        ((), {1}, _image(1)),
        ((1,), {1}, _image(1)),
        ((1,), {1, 2, 3}, _image(1, 2, 3)),
        ((1, 2, 3), {1, 2, 3}, _image()),
        ((1, 2, 3), {1, 4}, _image(1, 4)),
        ((1, 2, 3), {1}, _image(1, 2)),
        ((1, 2, 3), {1}, _image(1, unregistered=(3,))),
    ],
    ids=["none", "alone", "grown", "forming", "replaced", "joining", "left alone"],
)
def test_list_of_voters_may_be_older_than_the_cluster(
    voters: tuple[int, ...], members: set[int], image: MetadataImage
) -> None:
    assert not other_cluster(1, voters, members, image, "d")


@pytest.mark.parametrize(
    ("forms_with", "voters", "is_surprising"),
    [
        ((1,), (1, 2, 3), True),
        ((1, 2, 3), (1, 2, 3), False),
        ((), (1, 2, 3), False),
        ((1,), (1,), False),
    ],
)
def test_broker_that_waits_for_voters_its_file_does_not_name_says_so(
    forms_with: tuple[int, ...], voters: tuple[int, ...], is_surprising: bool
) -> None:
    said = waits_for_voters(1, forms_with, voters, "d", lambda _: "")

    assert said.startswith(f"waiting for a majority of the voters {', '.join(map(str, voters))} ")
    assert ("cluster in d" in said and "names only this broker" in said) == is_surprising


def test_voter_that_cannot_be_reached_is_named_with_the_reason() -> None:
    trouble = {2: "two:9192: Name or service not known", 3: ""}

    said = waits_for_voters(1, (1,), (1, 2, 3), "d", lambda each: trouble.get(each, ""))

    assert said.endswith("(broker 2 at two:9192: Name or service not known)")


@pytest.mark.parametrize(
    ("there", "words"), [(1, "1 of the voters 1, 2, 3 is"), (2, "2 of the voters 1, 2, 3 are")]
)
def test_voters_that_are_there_are_counted(there: int, words: str) -> None:
    assert no_controller((2, 1, 3), there) == f"no controller: {words} there"


def test_broker_that_cannot_write_says_so_in_place_of_a_stop() -> None:
    trouble = "5 bytes free, broker.disk_free_bytes_min is 6"

    assert waits_for_controller(2, trouble).endswith(trouble)
    assert waits_for_controller(2, "").endswith("broker 2, to unfence this broker")
    assert leaving("") == "this broker hands over and stops"
    assert leaving(trouble).endswith(trouble)
    assert "stops" not in leaving(trouble)
