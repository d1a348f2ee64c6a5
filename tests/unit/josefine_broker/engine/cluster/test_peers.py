"""Whom a broker lets in, what it says of itself, and whose addresses it keeps."""

from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.addresses import HostPort
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.admission import Speech
from josefine_broker.engine.cluster.frames import FrameError, Hello
from josefine_broker.engine.cluster.joining import removed
from josefine_broker.engine.cluster.peers import Peers, only_on_this_machine
from josefine_broker.engine.metadata.changes import RegisterBroker
from josefine_broker.engine.metadata.image import Address, BrokerEntry, Endpoint
from tests.unit.josefine_broker.api.world import World

HERE, THERE = HostPort("advertised", 9093), HostPort("there", 9093)


def make_peers(
    *,
    cluster_id: str = "c",
    members: tuple[int, ...] = (),
    address: HostPort = HERE,
    configured: tuple[HostPort, ...] = (HostPort("old", 9093),),
    unregistered: frozenset[int] = frozenset(),
) -> Peers:
    """Broker 1 of a cluster in which broker 2 is registered too."""
    image = World().ctx.image
    entry = BrokerEntry(broker_id=2, endpoints=(), raft=Address(THERE.host, THERE.port))
    endpoints = (Endpoint("PLAINTEXT", "here", 9092),)
    own = replace(image.brokers[1], endpoints=endpoints)
    image = replace(image, brokers={**image.brokers, 1: own, 2: entry}, unregistered=unregistered)
    book = AddressBook()
    for each in configured:
        book.learn(2, each)
    return Peers(
        1,
        address=address,
        cluster_id=cluster_id,
        seeds=(),
        book=book,
        image=lambda: image,
        members=lambda: frozenset(members),
    )


def peers_of(**asked: Any) -> Peers:
    """Broker 1, with what a test answers by itself: its image, members, height, who leads."""
    book = AddressBook()
    return Peers(1, address=HERE, cluster_id="c", seeds=(), book=book, **asked)


def hello(cluster_id: str = "c", address: HostPort = THERE) -> Hello:
    return Hello(node_id=2, to=1, cluster_id=cluster_id, address=str(address))


def test_a_greeting_names_the_members_and_invites_those_that_it_names() -> None:
    peers = make_peers()
    assert peers.hello(2).members == ()
    peers = make_peers(members=(1, 3))
    assert peers.hello(2).members == (1, 3)
    assert peers.knows(2)  # registered
    assert not peers.knows(4)
    with pytest.raises(FrameError, match="broker 4 is not a member"):
        peers.check(4, Speech.RAFT, 4)

    peers.greeted(replace(hello(), node_id=77, members=(77,)), was_dialed=False)
    assert not peers.knows(77)
    peers.greeted(replace(hello(), node_id=3, members=(1, 3, 4)), was_dialed=False)

    peers.check(4, Speech.RAFT, 4)
    with pytest.raises(FrameError, match="in the name of broker 3"):
        peers.check(4, Speech.RAFT, 3)


def test_peer_whose_id_is_connected_from_elsewhere_is_kept_out() -> None:
    peers = make_peers()

    reason = peers.why_not(hello(), elsewhere="other:1", voters=(1, 2))

    assert reason == "broker 2 is connected already, from other:1"
    assert peers.why_not(hello(), elsewhere=str(THERE), voters=(1, 2)) is None


@pytest.mark.parametrize(
    ("cluster_id", "voters", "is_let_in"),
    [("", (1, 2), False), ("c", (1, 2), True), ("", (1,), True)],
)
def test_registered_voter_that_names_no_cluster_is_kept_out(
    cluster_id: str, voters: tuple[int, ...], is_let_in: bool
) -> None:
    reason = make_peers().why_not(hello(cluster_id), elsewhere="", voters=voters)

    assert (reason is None) == is_let_in


@pytest.mark.parametrize(
    ("missing", "then"), [((), "if they are lost, "), ((3,), "start broker 3 first; then ")]
)
def test_voter_that_lost_its_data_is_told_the_way_back(missing: tuple[int, ...], then: str) -> None:
    """With a broker that it can ask; without a majority nothing could be decided."""
    peers = make_peers()

    reason = peers.why_not(hello(""), elsewhere="", voters=(1, 2, 3), missing=missing) or ""

    assert reason.startswith(
        "broker 2 votes in this cluster, but came with an empty data directory"
    )
    assert f"{then}'josefine cluster remove 2 --data-lost -b here:9092', and start it" in reason


def test_broker_refused_for_its_lost_data_must_stop_but_only_while_it_names_no_cluster() -> None:
    peers = make_peers(cluster_id="")
    sentence = "broker 1 votes in this cluster, but came with an empty data directory: do this"
    refusal = f"there:9093 refused: {sentence}"

    assert peers.must_stop(refusal, 0, patience_ms=100) == sentence
    other = "there:9093 refused: broker 1 belongs to cluster red"
    assert not peers.must_stop(other, 0, patience_ms=100)
    peers.cluster_id = "c"
    assert not peers.must_stop(refusal, 0, patience_ms=100)


def test_process_whose_broker_was_removed_stops_when_others_know_more_than_its_registration() -> (
    None
):
    """A peer that lags may not know that the broker has come back since."""
    peers = make_peers()
    registered = peers._image().brokers[1].epoch
    sentence = removed(1, registered)
    refusal = f"there:9093 refused: {sentence}"

    assert peers.must_stop(refusal, 0, patience_ms=100) == sentence
    assert not peers.must_stop(refusal, 0, patience_ms=100, is_heard=True)
    for other in (
        f"there:9093 refused: {removed(1, registered - 1)}",
        f"there:9093 refused: {removed(2, registered)}",
        "refused: broker 1 was removed from this cluster, as of block x;",
    ):
        assert not peers.must_stop(other, 0, patience_ms=100)


def test_process_that_was_removed_before_it_saw_itself_registered_stops_when_nothing_comes() -> (
    None
):
    """Found by seeds 100095 and 110132. One that comes back is refused as well by those that lag,
    but the leader sends it blocks meanwhile."""
    image = World().ctx.image
    image = replace(image, brokers={2: image.brokers[1]})
    height = 16
    peers = peers_of(
        image=lambda: image,
        members=frozenset,
        height=lambda: height,
    )
    sentence = removed(1, 40)

    def stops(now_ms: int, refusal: str = sentence) -> str:
        return peers.must_stop(f"there:9093 refused: {refusal}", now_ms, patience_ms=100)

    assert not stops(0)
    assert not stops(99)
    height = 17
    assert not stops(100)
    assert not stops(199)
    assert not stops(200, removed(1, 17))
    assert stops(200) == sentence


def test_who_leads_invites_no_removed_broker_whatever_greetings_name() -> None:
    """Found by seed 203813: of a member that had not heard of the removal it was invited for ever,
    and so never told."""
    image = replace(World().ctx.image, unregistered=frozenset({2}))
    leads = False
    peers = peers_of(
        image=lambda: image,
        members=lambda: frozenset({1, 3}),
        height=lambda: 30,
        leads=lambda: leads,
    )
    named = Hello(node_id=3, to=1, cluster_id="c", address=str(THERE), members=(1, 2, 3, 4))
    peers.greeted(named, was_dialed=True)
    assert peers.knows(2)
    assert peers.knows(4)

    leads = True

    assert not peers.knows(2)
    assert peers.knows(4)
    assert peers.why_not(hello(), elsewhere="", voters=()) == removed(2, 30)


def test_broker_that_is_removed_is_no_longer_invited_until_a_greeting_names_it_again() -> None:
    image = replace(World().ctx.image, unregistered=frozenset())
    peers = peers_of(
        image=lambda: image,
        members=lambda: frozenset({1, 2}),
        height=lambda: 30,
    )
    named = replace(hello(), members=(1, 2, 7))
    peers.greeted(named, was_dialed=True)
    assert peers.knows(7)

    image = replace(image, unregistered=frozenset({7}))
    peers.learn_from_image()
    assert not peers.knows(7)

    peers.greeted(named, was_dialed=True)
    peers.learn_from_image()
    assert peers.knows(7)
    peers.beats(7, 31)  # it has come back, and this broker is behind
    assert peers.knows(7)
    peers.beats(7, 30)
    assert not peers.knows(7)


def test_address_of_the_image_goes_before_the_configured_one() -> None:
    peers = make_peers()
    assert peers.book.addresses(2) == (HostPort("old", 9093),)

    peers.learn_from_image()

    assert peers.book.addresses(2) == (THERE, HostPort("old", 9093))


def test_address_in_a_greeting_is_learnt_of_who_dials_and_is_no_stranger() -> None:
    peers = make_peers(configured=())
    stranger = Hello(node_id=77, to=1, cluster_id="c", address="evil:1")

    peers.greeted(stranger, was_dialed=False)
    peers.greeted(hello(), was_dialed=True)
    assert (peers.book.addresses(77), peers.book.addresses(2)) == ((), ())
    peers.greeted(hello(), was_dialed=False)

    assert peers.book.addresses(2) == (THERE,)


def test_kept_book_is_read_again_and_what_was_heard_last_goes_first() -> None:
    book = AddressBook()
    for port in (1, 2, 1):
        book.learn(7, HostPort("a", port))

    again = AddressBook()
    again.learn(7, HostPort("configured", 9))
    again.take(book.to_bytes())

    assert again.addresses(7) == (HostPort("a", 1), HostPort("a", 2), HostPort("configured", 9))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"version": 2, "nodes": {}}', b'{"version": 1, "nodes": {"7": [1]}}']
)
def test_book_that_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        AddressBook().take(data)


def test_book_tells_when_it_is_to_be_kept_again() -> None:
    book = AddressBook()
    book.learn(7, HostPort("a", 1))
    before = book.changes

    book.learn(7, HostPort("a", 1))
    assert book.changes == before
    book.learn(7, HostPort("a", 2))
    assert book.changes == before + 1


def test_who_looks_for_the_cluster_is_told_every_address_and_ours() -> None:
    peers = make_peers()
    peers.learn_from_image()

    found = peers.discovered(leader=None)

    assert (found.cluster_id, found.leader) == ("c", -1)
    assert found.addresses == {1: HERE, 2: THERE}
    assert peers.hello(2) == Hello(node_id=1, to=2, cluster_id="c", address=str(HERE))


def test_address_that_only_this_machine_reaches_is_told_once() -> None:
    """Once at the start, from the configured voters, and not again when the image names them."""
    peers = make_peers()
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    registration = RegisterBroker(broker_id=1, incarnation="i", endpoints=(endpoint,))

    peers.introduce(registration)
    told = peers.warnings()
    peers.learn_from_image()

    assert len(told) == 1
    assert told[0].startswith("broker.listeners PLAINTEXT is advertised as 127.0.0.1:9092, which")
    assert "another broker is at old:9093" in told[0]
    assert peers.warnings() == []


def test_broker_from_elsewhere_that_joins_later_is_noticed() -> None:
    peers = make_peers(address=HostPort("127.0.0.1", 9093), configured=())
    peers.introduce(RegisterBroker(broker_id=1, incarnation="i", endpoints=()))
    assert peers.warnings() == []

    peers.learn_from_image()

    assert len(peers.warnings()) == 1
    assert peers.warnings() == []


@pytest.mark.parametrize(
    ("own", "other", "is_told"),
    [
        ("127.0.0.1", "host2", True),
        ("127.0.1.1", "10.0.0.2", True),
        ("localhost", "10.0.0.2", True),
        ("::1", "fd00::2", True),
        ("127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "localhost", False),
        ("host1", "host2", False),
        ("10.0.0.1", "127.0.0.1", False),
    ],
)
def test_loopback_address_among_brokers_elsewhere_is_told(
    own: str, other: str, is_told: bool
) -> None:
    found = only_on_this_machine({"raft.listener": HostPort(own, 1)}, [HostPort(other, 2)])

    assert bool(found) == is_told
    if is_told:
        assert found[0].startswith(f"raft.listener is advertised as {HostPort(own, 1)}, which only")
        assert f"another broker is at {HostPort(other, 2)}" in found[0]


def test_who_stands_alone_may_advertise_what_it_likes() -> None:
    assert only_on_this_machine({"raft.listener": HostPort("127.0.0.1", 1)}, []) == []


def test_broker_that_was_removed_is_told_so_unless_it_is_a_member_again() -> None:
    gone = replace(hello(), node_id=7, address="seven:1")
    for members, is_told in (((1, 2), True), ((1, 2, 7), False)):
        peers = make_peers(members=members, unregistered=frozenset({7}))

        reason = peers.why_not(gone, elsewhere="", voters=(1, 2))

        assert (reason is not None) is is_told
        assert not is_told or "broker 7 was removed from this cluster" in str(reason)
        # One that comes back as the way back says, with nothing, is let in.
        assert peers.why_not(replace(gone, cluster_id=""), elsewhere="", voters=(1, 2)) is None
