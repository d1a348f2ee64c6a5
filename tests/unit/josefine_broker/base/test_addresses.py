"""What is an address of a broker: the same for what is configured, and for what a peer says."""

import pytest

from josefine_broker.base.addresses import HostPort, parse_host_port
from josefine_broker.engine.cluster.frames import FrameError, Hello, Kind, Session

HOSTS = [
    "localhost",
    "broker-1.example.org",
    "broker-1.example.org.",
    "kafka_broker",  # as docker compose names services and containers
    "my_project_kafka_1.my_project_default",
    "_kafka._tcp.example.org",
    "10.0.0.1",
]
NO_HOSTS = ["", "-a", "a-", "a..b", ".a", "a b", "a/b", "a\n", "ä", "a,b", "300.1.1.1"]


@pytest.mark.parametrize("host", HOSTS)
def test_host_name_that_is_configured_is_one_that_peers_take(host: str) -> None:
    address = f"{host}:9093"

    assert parse_host_port(address) == HostPort(host, 9093)
    assert greeted(address) == address


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_cannot_be_a_host_name_is_refused_at_both_ends(host: str) -> None:
    with pytest.raises(ValueError, match=r"host|IPv4"):
        parse_host_port(f"{host}:9093")
    with pytest.raises(FrameError, match="a greeting w"):
        greeted(f"{host}:9093")


def greeted(address: str) -> str:
    """What a broker hears of a peer that says to be there. Raises FrameError."""
    ours = Hello(node_id=1, to=0, cluster_id="", address="")
    session = Session(ours, dials=False)
    session.feed(Hello(node_id=2, to=1, cluster_id="", address=address).encode(Kind.HELLO))
    assert session.peer is not None
    return session.peer.address
