"""Whom a broker lets in, what it says of itself, and whose addresses it keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from josefine_broker.config import HostPort, load_config
from josefine_broker.core.changes import RegisterBroker
from josefine_broker.core.door import Speech
from josefine_broker.core.image import Address, BrokerEntry, Endpoint
from josefine_broker.peers import Peers
from josefine_broker.shell.address_book import BOOK_FILE
from josefine_broker.shell.raft_frames import FrameError, Hello
from tests.unit.handlers.world import World

HERE, THERE = HostPort("advertised", 9093), HostPort("there", 9093)


def make_peers(data_dir: Path, *, cluster_id: str = "c", members: tuple[int, ...] = ()) -> Peers:
    """Broker 1 of a cluster in which broker 2 is registered too."""
    ctx = World().ctx
    entry = BrokerEntry(broker_id=2, endpoints=(), raft=Address(THERE.host, THERE.port))
    ctx.image = replace(ctx.image, brokers={**ctx.image.brokers, 2: entry})
    config = load_config(
        None,
        {},
        {
            "broker.id": ctx.broker_id,
            "broker.data_dir": str(data_dir),
            "raft.voters": [f"{ctx.broker_id}@here:9093", "2@old:9093"],
        },
    )
    return Peers(config, ctx, address=HERE, cluster_id=cluster_id, members=lambda: members)


def hello(cluster_id: str = "c", address: HostPort = THERE) -> Hello:
    return Hello(node_id=2, to=1, cluster_id=cluster_id, address=str(address))


def test_a_greeting_names_the_members_and_invites_those_that_it_names(tmp_path: Path) -> None:
    peers = make_peers(tmp_path)
    assert peers.hello(2).members == ()
    peers = make_peers(tmp_path, members=(1, 3))
    assert peers.hello(2).members == (1, 3)
    assert peers.knows(2)  # registered
    assert not peers.knows(4)
    newcomer = replace(hello(), node_id=4)
    with pytest.raises(FrameError, match="broker 4 is no member"):
        peers.check(newcomer, Speech.RAFT, 4)

    peers.greeted(replace(hello(), node_id=77, members=(77,)), False)
    assert not peers.knows(77)
    peers.greeted(replace(hello(), node_id=3, members=(1, 3, 4)), False)

    peers.check(newcomer, Speech.RAFT, 4)
    with pytest.raises(FrameError, match="in the name of broker 3"):
        peers.check(newcomer, Speech.RAFT, 3)


def test_peer_whose_id_is_connected_from_elsewhere_is_kept_out(tmp_path: Path) -> None:
    peers = make_peers(tmp_path)

    reason = peers.why_not(hello(), elsewhere="other:1", voters=(1, 2))

    assert reason == "broker 2 is connected already, from other:1"
    assert peers.why_not(hello(), elsewhere=str(THERE), voters=(1, 2)) is None


@pytest.mark.parametrize(
    ("cluster_id", "voters", "is_let_in"),
    [("", (1, 2), False), ("c", (1, 2), True), ("", (1,), True)],
)
def test_registered_voter_that_names_no_cluster_is_kept_out(
    tmp_path: Path, cluster_id: str, voters: tuple[int, ...], is_let_in: bool
) -> None:
    reason = make_peers(tmp_path).why_not(hello(cluster_id), elsewhere="", voters=voters)

    assert (reason is None) == is_let_in


@pytest.mark.parametrize(
    ("missing", "then"), [((), "if they are lost, "), ((3,), "start broker 3 first; then ")]
)
def test_voter_that_lost_its_data_is_told_the_way_back(
    tmp_path: Path, missing: tuple[int, ...], then: str
) -> None:
    """With a broker that it can ask; without a majority nothing could be decided."""
    peers = make_peers(tmp_path)
    endpoints = (Endpoint("PLAINTEXT", "here", 9092),)
    own = replace(peers._ctx.image.brokers[1], endpoints=endpoints)
    peers._ctx.image = replace(peers._ctx.image, brokers={**peers._ctx.image.brokers, 1: own})

    reason = peers.why_not(hello(""), elsewhere="", voters=(1, 2, 3), missing=missing) or ""

    assert reason.startswith(
        "broker 2 votes in this cluster, but came with an empty data directory"
    )
    assert f"{then}'josefine cluster remove 2 --data-lost -b here:9092', and start it" in reason


def test_broker_refused_for_its_lost_data_must_stop_but_only_while_it_names_no_cluster(
    tmp_path: Path,
) -> None:
    peers = make_peers(tmp_path, cluster_id="")
    sentence = "broker 1 votes in this cluster, but came with an empty data directory: do this"
    refusal = f"there:9093 refused: {sentence}"

    assert peers.must_stop(refusal) == sentence
    assert not peers.must_stop("there:9093 refused: broker 1 belongs to cluster red")
    peers.cluster_id = "c"
    assert not peers.must_stop(refusal)


def test_address_of_the_image_goes_before_the_configured_one_and_survives(tmp_path: Path) -> None:
    peers = make_peers(tmp_path)
    assert peers.book.addresses(2) == (HostPort("old", 9093),)

    peers.learn_from_image()

    assert peers.book.addresses(2) == (THERE, HostPort("old", 9093))
    assert make_peers(tmp_path).book.addresses(2)[0] == THERE


def test_book_that_cannot_be_stored_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peers = make_peers(tmp_path)
    (tmp_path / (BOOK_FILE + ".tmp")).mkdir()

    peers.learn_from_image()

    assert "address book not stored" in caplog.text


def test_who_looks_for_the_cluster_is_told_every_address_and_ours(tmp_path: Path) -> None:
    peers = make_peers(tmp_path)
    peers.learn_from_image()

    found = peers.discovered(leader=None)

    assert (found.cluster_id, found.leader) == ("c", -1)
    assert found.addresses == {1: HERE, 2: THERE}
    assert peers.hello(2) == Hello(node_id=1, to=2, cluster_id="c", address=str(HERE))


def test_address_that_only_this_machine_reaches_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once at the start, from the configured voters, and not again when the image names them."""
    peers = make_peers(tmp_path)
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    registration = RegisterBroker(broker_id=1, incarnation="i", endpoints=(endpoint,))

    told = peers.introduce(registration)
    peers.learn_from_image()

    assert len(told) == 1
    assert told[0].startswith("broker.listeners PLAINTEXT is advertised as 127.0.0.1:9092, which")
    assert "another broker is at old:9093" in told[0]
    assert "advertised address" not in caplog.text


def test_broker_from_elsewhere_that_joins_later_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = load_config(None, {}, {"broker.id": 1, "broker.data_dir": str(tmp_path)})
    peers = Peers(config, World().ctx, address=HostPort("127.0.0.1", 9093), cluster_id="c")
    assert peers.introduce(RegisterBroker(broker_id=1, incarnation="i", endpoints=())) == []

    peers.book.learn(2, THERE)
    peers.learn_from_image()
    peers.learn_from_image()

    assert caplog.text.count("advertised address") == 1
