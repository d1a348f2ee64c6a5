"""The text protocol of three real brokers: any takes any command, one is killed, all come back."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster import REPLICATED, Cluster
from tests.support.text import TextSocket, text_address
from tests.support.text_scenarios import ONLY_COORDINATOR, SCENARIOS, play
from tests.support.waiting import wait_until

BROKERS = (1, 2, 3)
PARTITIONS = 3


def published(client: TextSocket, bodies: range) -> set[str]:
    """The bodies that were acknowledged, each with itself as key."""
    return {str(n) for n in bodies if client.say(f'PUBS t {{"Key":"{n}","Body":"{n}"}}') == "Done"}


def stored(client: TextSocket, ids: list[str]) -> list[set[str]]:
    """By partition, what the subscriptions read."""
    return [{each["Body"] for each in client.data(f"CONS t {id_} 0")} for id_ in ids]


def test_any_broker_takes_any_command_one_is_killed_and_all_come_back(tmp_path: Path) -> None:
    """Checklist rows 40-44, 46-48, 50 and 54."""
    with Cluster(tmp_path, **REPLICATED, text__port=0) as cluster:
        clients = {each: TextSocket(text_address(cluster.broker(each))) for each in BROKERS}
        assert clients[1].say(f"CRTP t {PARTITIONS}") == "Done"
        for name in (each for each in SCENARIOS if each != ONLY_COORDINATOR):
            for at in BROKERS:
                with TextSocket(text_address(cluster.broker(at))) as other:
                    play(name, other.say, topics=f"{name}-{at}-")
        acknowledged = set[str]()
        for at, client in enumerate(clients.values()):
            acknowledged |= published(client, range(at * 20, at * 20 + 20))
        ids = [id_ for client in clients.values() for id_ in client.data("SUBS t g")]
        before = stored(clients[1], ids)
        assert len(acknowledged) == 60
        assert [stored(clients[each], ids) for each in (2, 3)] == [before] * 2
        assert all(before)

        cluster.kill(2)
        del clients[2]
        acknowledged |= published(clients[1], range(60, 80))
        wait_until(lambda: len(published(clients[3], range(80, 90))) == 10, 30, "a new leader")
        acknowledged |= set(map(str, range(80, 90)))
        assert set.union(*stored(clients[3], ids)) >= acknowledged
        assert clients[1].say("SUBS t g").startswith("Failed to create subscription")

        for each in (1, 3):
            cluster.kill(each)
        cluster.spawn(*BROKERS)
        cluster.wait_serving(*BROKERS)
        with TextSocket(text_address(cluster.broker(2))) as client:
            after = stored(client, ids)
            assert client.say(f"CRTP t {PARTITIONS}") == "Done"
            assert client.say("SUBS t g").startswith("Failed to create subscription")
        assert set.union(*after) >= acknowledged
        assert all(had <= has for had, has in zip(before, after, strict=True))  # keys stay
