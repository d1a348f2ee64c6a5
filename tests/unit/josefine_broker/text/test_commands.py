"""Every command and every error, to the letter, over a broker in memory."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from josefine_broker.engine.metadata.changes import CreateTopic
from josefine_broker.text.commands import COMMANDS
from tests.support.text_scenarios import SCENARIOS, play, read
from tests.unit.josefine_broker.api.world import World, batch_of, values_in
from tests.unit.josefine_broker.text.client import TextClient, client_of, front_of, message


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_command_and_every_error_of_the_scenarios(name: str) -> None:
    """Checklist rows 40-42, 45-47 and 50."""
    play(name, client_of(World()).say)


def test_the_scenarios_walk_every_command() -> None:
    said = {each.said.partition(" ")[0].upper() for name in SCENARIOS for each in read(name)}
    assert said >= set(COMMANDS)


def test_message_waits_for_no_tick() -> None:
    """Checklist row 53: it is answered while the clock stands still. `./build.sh bench text` says
    how long that takes."""
    world = World()
    client = client_of(world)
    client.say("CRTP t")
    before_ms = world.clock.elapsed_ms

    assert client.say(f"PUBS t {message('x')}") == "Done"
    assert world.clock.elapsed_ms == before_ms


def test_disc_ends_the_connection() -> None:
    client = client_of(World())

    assert client.say("DISC") == "Done"
    assert client.session.is_closed


def test_key_decides_the_partition_and_no_key_takes_turns() -> None:
    """Checklist row 44."""
    world = World()
    client = client_of(world)
    client.say("CRTP t 3")

    for number in range(6):
        client.say(f"PUBS t {message(f'turn {number}')}")
    for number in range(3):
        client.say(f"PUBS t {message(f'key {number}', key='a')}")

    of_a = (0xE40C292C & 0x7FFFFFFF) % 3
    counts = [len(values_in(world.fetch(topic="t", partition=each))) for each in range(3)]
    assert counts == [5 if each == of_a else 2 for each in range(3)]


def test_topics_with_the_same_partitions_keep_apart() -> None:
    """Checklist row 51."""
    world = World()
    client = client_of(world)
    for name in ("a", "b"):
        client.say(f"CRTP {name}")
        client.say(f"PUBS {name} {message(name)}")

    ids = {name: client.data(f"SUBS {name} g")[0] for name in ("a", "b")}

    for name, id_ in ids.items():
        assert [each["Body"] for each in client.data(f"CONS {name} {id_} 0")] == [name]


def test_what_one_protocol_writes_the_other_reads() -> None:
    """Checklist row 52."""
    world = World()
    client = client_of(world)
    client.say("CRTP t")
    client.say(f"PUBS t {message('text', key='k', header='h')}")
    world.produce(batch_of(b"kafka"), topic="t")

    (id_,) = client.data("SUBS t g")

    assert values_in(world.fetch(topic="t")) == [b"text", b"kafka"]
    shown = client.data(f"CONS t {id_} 0")
    assert [(each["Header"], each["Key"], each["Body"]) for each in shown] == [
        ("h", "k", "text"), ("", "k", "kafka"),
    ]  # fmt: skip


def test_message_of_more_than_64_kib_and_not_of_more_than_the_topic_takes() -> None:
    """Checklist row 45."""
    world = World()
    client = client_of(world)
    client.say("CRTP t")
    world.create("small", max_message_bytes="1000")

    assert client.say(f"PUBS t {message('x' * 200_000)}") == "Done"
    assert client.say(f"PUBS small {message('x' * 2_000)}") == (
        "Error, small-0 did not take it: a batch of 2078 bytes, max.message.bytes is 1000"
    )
    assert values_in(world.fetch(topic="small")) == []


def test_messages_that_are_too_large_together_go_one_by_one() -> None:
    world = World()
    client = client_of(world)
    world.create("small", max_message_bytes="1000")
    bodies = ["a" * 600, "b" * 600, "c" * 2_000, "d" * 10, "e" * 10]

    replies = client.send("".join(f"PUBS small {message(each)}\n" for each in bodies).encode())

    assert [each[:4] for each in replies] == ["Done", "Done", "Erro", "Done", "Done"]
    stored = values_in(world.fetch(topic="small"))
    assert [each[:1] for each in stored if each] == [b"a", b"b", b"d", b"e"]


def test_lines_that_come_together_are_one_batch_and_keep_their_order() -> None:
    world = World()
    client = client_of(world)
    client.say("CRTP t")
    before = world.ctx.hosted.traffic.total().batches_in

    replies = client.send("".join(f"PUBS t {message(str(n))}\n" for n in range(500)).encode())

    assert replies == ["Done"] * 500
    assert world.ctx.hosted.traffic.total().batches_in == before + 1
    assert values_in(world.fetch(topic="t")) == [str(n).encode() for n in range(500)]


def test_reply_is_bounded_and_says_that_there_is_more() -> None:
    world = World()
    client = client_of(world, reply_records_max=3, reply_bytes_max=1_000)
    client.say("CRTP t")
    client.send("".join(f"PUBS t {message(str(n))}\n" for n in range(5)).encode())
    client.say(f"PUBS t {message('x' * 5_000)}")
    (id_,) = client.data("SUBS t g")

    found = [client.say(f"CONS t {id_} {offset}") for offset in (0, 3, 5, 6)]

    assert [each.count('"Offset"') for each in found] == [3, 2, 1, 0]
    assert [each.endswith('"More":true}') for each in found] == [True, True, False, False]


def test_times_stand_for_the_first_message_of_then_or_later() -> None:
    world = World()
    client = client_of(world)
    client.say("CRTP t")
    (id_,) = client.data("SUBS t g")
    times = []
    for n in range(3):
        client.say(f"PUBS t {message(str(n))}")
        times.append(datetime.fromtimestamp(world.ctx.clock.now_ms() / 1000, UTC).isoformat())
        world.advance(2_000)
    behind = datetime.fromtimestamp(world.ctx.clock.now_ms() / 1000, UTC).isoformat()

    def bodies(places: str) -> list[str]:
        return [each["Body"] for each in client.data(f"CONS t {id_} {places}")]

    assert bodies(times[1]) == ["1", "2"]
    assert bodies(f"{times[0]} {times[2]}") == ["0", "1"]
    assert bodies(f"{times[1]} 2") == ["1"]
    assert bodies(f"0 {behind}") == ["0", "1", "2"]
    assert bodies(behind) == []
    assert client.say(f"CONS t {id_} {times[2]} {times[1]}") == (
        "Error, the end, offset 1, lies before the beginning, offset 2"
    )


def test_an_end_bounds_what_there_is_more_of() -> None:
    world = World()
    client = client_of(world, reply_records_max=3)
    client.say("CRTP t")
    client.send("".join(f"PUBS t {message(str(n))}\n" for n in range(9)).encode())
    (id_,) = client.data("SUBS t g")

    found = [client.say(f"CONS t {id_} {places}") for places in ("0 5", "3 5", "0 3", "6")]

    assert [each.count('"Offset"') for each in found] == [3, 2, 3, 3]
    assert [each.endswith('"More":true}') for each in found] == [True, False, False, False]


def test_reader_crosses_segments_and_begins_where_the_log_does_now() -> None:
    """Checklist row 47."""
    world = World()
    client = client_of(world)
    world.create("t", segment_records="40")
    client.send("".join(f"PUBS t {message(str(n))}\n" for n in range(5)).encode())
    for n in range(200):
        client.say(f"PUBS t {message(str(n))}")
    (id_,) = client.data("SUBS t g")

    assert len(client.data(f"CONS t {id_} 0")) == 205

    world.ctx.hosted.partitions["t", 0].log.delete_before(100)
    assert [each["Offset"] for each in client.data(f"CONS t {id_} 7")] == list(range(100, 205))


def test_full_disk_is_an_error_line_behind_the_timeout() -> None:
    world = World()
    client = client_of(world, timeout_ms=200)
    client.say("CRTP t")
    world.ctx.storage.is_full, world.ctx.storage.trouble = True, "the disk is full"

    assert client.say(f"PUBS t {message('x')}") == (
        "Error, t-0 took no message in time: the disk is full"
    )
    assert world.clock.elapsed_ms >= 200


def test_strict_broker_that_leads_nothing_says_so() -> None:
    """Checklist row 43: the strict half."""
    world = World(brokers=2)
    client = client_of(world, is_strict=True)
    world.propose(CreateTopic(name="t", topic_id=world.topic_id(), replicas=((2, 1),)))

    assert client.say(f"PUBS t {message('x')}") == "This is not the leader"
    world.ctx.cluster.controller_id = 2
    assert client.say("CRTP other") == "This is not the leader"


@pytest.mark.parametrize("word", ["GET", "post"])
def test_browser_is_hung_up_on_before_its_body_is_served(word: str) -> None:
    client = client_of(World())

    replies = client.send(f"{word} / HTTP/1.1\r\nHost: x\r\n\r\nCRTP evil\n".encode())

    assert replies == ["Error, this is not HTTP; the connection is closed"]
    assert client.session.is_closed


def test_browser_behind_a_message_does_not_cost_its_reply() -> None:
    client = client_of(World())
    client.say("CRTP t")

    replies = client.send(b"PUBS t {}\nGET / HTTP/1.1\n")

    assert replies == ["Done", "Error, this is not HTTP; the connection is closed"]


def test_line_too_long_is_refused_and_the_next_one_served() -> None:
    client = client_of(World(), line_bytes_max=1_024)

    assert client.send(b"x" * 5_000 + b"\nCRTP t\n") == [
        "Error, the line is longer than 1024 bytes", "Done",
    ]  # fmt: skip


def test_of_a_client_that_is_gone_only_what_needs_no_reader_is_done() -> None:
    world = World()
    client = client_of(world)
    client.session.receive(b"CRTP t\nPUBS t {}\nnoise\nSUBS t g\nCONS t x 0\nPUBS t {}\n")
    client.session.desert()

    assert client.run() == ["Done"] * 3
    assert client.session.is_closed
    assert len(values_in(world.fetch(topic="t"))) == 2
    assert client_of(world).say("SUBS t g").startswith("{")


def test_end_of_input_closes_behind_the_last_reply_and_half_a_line_is_none() -> None:
    client = client_of(World())
    client.session.receive(b"CRTP t\nCRTP u")
    client.session.has_ended = True

    assert client.run() == ["Done"]
    assert client.session.is_closed
    assert TextClient(front_of(World())).send(b"") == []
