"""Any broker takes any command: it asks the one that leads, over a cluster without sockets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC, Endpoint
from josefine_broker.text.front import TEXT_LISTENER, Front, TextSettings, new_front
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.text.client import TextClient, message

NOT_THE_LEADER = "This is not the leader"


class Cluster(Replicas):
    """Brokers with text listeners, which hear each other at once."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(3)
        self.fronts: dict[int, Front] = {}
        self.lines: list[str] = []
        """What brokers said to one another."""
        self.deaf: set[int] = set()
        for broker_id, ctx in self.ctx.items():
            self.fronts[broker_id] = new_front(ctx, TextSettings(**settings), self._say)
            ctx.ports.forward = self._forward

    def endpoint(self, broker_id: int) -> Endpoint:
        return Endpoint(TEXT_LISTENER, f"host{broker_id}", 9392)

    def client(self, broker_id: int) -> TextClient:
        return TextClient(self.fronts[broker_id], self._let_pass)

    def _let_pass(self, ms: int) -> None:
        self.run()
        self.advance(ms)
        self.run()

    def _say(
        self, broker_id: int, line: str, deadline_ms: int, on_reply: Callable[[str | None], None]
    ) -> None:
        self.lines.append(line)
        is_there = broker_id in self.ctx and broker_id not in self.deaf
        on_reply(self.client(broker_id).say(line) if is_there else None)

    def _forward(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        deadline_ms: int,
        on_answer: Callable[[Any], None],
    ) -> None:
        if broker_id not in self.ctx or broker_id in self.deaf:
            on_answer(None)
            return
        answer = self.ask(broker_id, api_key, request)
        while hasattr(answer, "done") and not answer.done:
            self._let_pass(10)
        on_answer(answer.response if hasattr(answer, "done") else answer)


def led_by_each(cluster: Cluster) -> None:
    """A topic of three partitions, each led by another broker."""
    cluster.create("t", replicas=((1, 2, 3), (2, 3, 1), (3, 1, 2)))


def coordinator(cluster: Cluster, group: str) -> int:
    topic = cluster.image.topics[OFFSETS_TOPIC]
    return topic.partitions[coordinator_partition(group, len(topic.partitions))].leader


def group_of(cluster: Cluster, broker_id: int) -> str:
    """A group that this broker coordinates."""
    return next(
        name for name in map("g{}".format, range(100)) if coordinator(cluster, name) == broker_id
    )


def test_any_broker_takes_any_command() -> None:
    """Checklist rows 43, 44 and 46."""
    cluster = Cluster()
    led_by_each(cluster)
    clients = [cluster.client(each) for each in (1, 2, 3)]

    replies = [each.say(f"PUBS t {message('x', key=str(n))}") for each in clients for n in range(9)]
    ids = [id_ for each in clients for id_ in each.data("SUBS t g")]
    counts = [[len(each.data(f"CONS t {id_} 0")) for id_ in ids] for each in clients]

    assert replies == ["Done"] * 27
    assert len(ids) == 3
    assert counts[0] == counts[1] == counts[2]
    assert sum(counts[0]) == 27
    assert all(each % 3 == 0 for each in counts[0])  # a key went to one partition from everywhere
    assert [each.say("SUBS t g")[:6] for each in clients] == ["Failed"] * 3
    assert clients[0].say(f"UNSUBS t {ids[2]}") == "Done"
    assert clients[1].say("DISC") == "Done"
    assert len(clients[2].data("SUBS t g 9")) == 2
    assert {each.split()[0] for each in cluster.lines} == {"@SUBS", "@UNSUBS", "@KEEP"}


def test_strict_broker_names_no_leader_and_asks_none() -> None:
    """Checklist row 43."""
    cluster = Cluster()
    led_by_each(cluster)
    ids = cluster.client(1).data("SUBS t g 3")
    by_partition = {int(each.split("-")[1]): each for each in ids}
    cluster.lines.clear()
    for broker_id in (1, 2, 3):
        front = cluster.fronts[broker_id]
        cluster.fronts[broker_id] = new_front(front.ctx, TextSettings(is_strict=True), front.say)

    keyed = {n: f"PUBS t {message('x', key=str(n))}" for n in range(9)}
    accepted = {n: [cluster.client(b).say(line) for b in (1, 2, 3)] for n, line in keyed.items()}
    read = [
        [cluster.client(b).say(f"CONS t {by_partition[p]} 0") for p in range(3)] for b in (1, 2, 3)
    ]
    granted = [cluster.client(b).say("SUBS t h") for b in (1, 2, 3)]

    for replies in accepted.values():
        assert sorted(replies) == ["Done", NOT_THE_LEADER, NOT_THE_LEADER]
    assert [[each != NOT_THE_LEADER for each in row] for row in read] == [
        [True, False, False], [False, True, False], [False, False, True],
    ]  # fmt: skip
    assert sorted(granted)[:2] == [NOT_THE_LEADER] * 2
    assert {each.split()[0] for each in cluster.lines} <= {"@KEEP"}


def test_done_means_that_every_replica_in_sync_has_it() -> None:
    cluster = Cluster()
    cluster.create("t")
    session = cluster.client(1).session

    session.receive(f"PUBS t {message('x')}\n".encode())
    while session.step():
        pass

    assert session.take() == b""
    cluster.run()
    assert session.waiting is not None
    assert session.waiting.done
    session.resume()
    assert session.take() == b"Done\n"


def test_messages_go_on_when_their_leader_is_killed() -> None:
    """Checklist row 54: with subscriptions, and nothing acknowledged lost."""
    cluster = Cluster()
    cluster.create(OFFSETS_TOPIC, replicas=((2, 1, 3),))
    led_by_each(cluster)
    client = cluster.client(1)
    client.data("SUBS t g 3")
    acknowledged = 0
    for n in range(9):
        acknowledged += client.say(f"PUBS t {message(str(n))}") == "Done"

    cluster.kill(2)
    for n in range(9):
        acknowledged += client.say(f"PUBS t {message(str(n))}") == "Done"

    held = list(client.session._client.held)
    other = cluster.client(3)
    assert acknowledged == 18
    assert sum(len(other.data(f"CONS t {each} 0")) for each in held) == 18
    assert other.say("SUBS t g").startswith("Failed to create subscription")


def test_a_new_leader_shows_what_was_acknowledged_though_it_does_not_know_how_far_that_is() -> None:
    """KIP-207. Its high watermark is its predecessor's of a while ago."""
    cluster = Cluster()
    cluster.create("t", replicas=((2, 1, 3),))
    client = cluster.client(1)
    (id_,) = client.data("SUBS t g")
    assert client.say(f"PUBS t {message('known')}") == "Done"
    cluster.run()
    publisher = cluster.client(2).session
    publisher.receive(f"PUBS t {message('told')}\n".encode())
    while publisher.waiting is None or not publisher.waiting.done:
        publisher.step()
        cluster.step()

    cluster.kill(2)

    read = [each["Body"] for each in client.data(f"CONS t {id_} 0")]
    assert read == ["known", "told"]


def test_leader_that_does_not_answer_leaves_it_open_and_nothing_is_sent_twice() -> None:
    cluster = Cluster(timeout_ms=500)
    cluster.create("t", replicas=((2, 1, 3),))
    cluster.deaf.add(2)

    reply = cluster.client(1).say(f"PUBS t {message('x')}")

    assert reply == "Error, the leader of t-0 did not answer: nobody knows if it is stored"


def test_coordinator_that_cannot_be_asked_is_named() -> None:
    cluster = Cluster(timeout_ms=500)
    cluster.create(OFFSETS_TOPIC, replicas=((2, 1, 3),))
    cluster.create("t")
    cluster.deaf.add(2)

    client = cluster.client(1)
    assert client.say("SUBS t g") == "Error, broker 2, which coordinates group g, did not answer"

    cluster.ctx[1].image = replace(cluster.ctx[1].image, brokers={})
    assert client.say("SUBS t g") == "Error, broker 2 coordinates group g and has no text listener"


def test_coordinator_that_lags_behind_is_asked_again() -> None:
    """It has not heard of the topic that this broker has just said is there."""
    cluster = Cluster(timeout_ms=500)
    cluster.create(OFFSETS_TOPIC, replicas=((2, 1, 3),))
    cluster.held.add(2)
    cluster.create("t")
    client = cluster.client(1)

    assert client.say("SUBS t g") == (
        "Error, the coordinator of group g did not take it in time: it does not know topic 't' yet"
    )
    cluster.held.clear()
    cluster.deliver()
    assert client.say("SUBS t g").startswith('{"Ok":true')


def test_two_at_once_never_hold_the_same_partition() -> None:
    """While a grant waits for its replicas, nobody else is granted what it takes."""
    cluster = Cluster()
    cluster.create(OFFSETS_TOPIC, replicas=((1, 2, 3),))
    cluster.create("t")
    one, other = cluster.client(1), cluster.client(1)

    one.session.receive(b"SUBS t g\n")
    while one.session.step():
        pass
    replies = other.say("SUBS t g")

    assert replies.startswith("Failed to create subscription")
    assert one.run()[0].startswith('{"Ok":true')


def test_release_and_sign_of_life_do_not_overtake_each_other() -> None:
    cluster = Cluster()
    cluster.create(OFFSETS_TOPIC, replicas=((1, 2, 3),))
    cluster.create("t")
    one, other = cluster.client(1), cluster.client(1)
    (id_,) = one.data("SUBS t g")
    cluster.advance(200_000)  # a commit is due

    one.session.receive(f"UNSUBS t {id_}\n".encode())
    while one.session.step():
        pass
    reply = other.say(f"CONS t {id_} 0")

    assert reply == f"Error, there is no subscription '{id_}' of topic 't'"
    assert one.run() == ["Done"]
    committed = cluster.ctx[1].clients.groups.coordinator.offsets.committed("g")[
        TopicPartition("t", 0)
    ]
    assert committed.metadata == ""
