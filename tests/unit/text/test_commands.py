"""Every command and every error, to the letter, over a broker in memory."""

from __future__ import annotations

import pytest

from josefine_broker.engine.metadata.changes import CreateTopic
from josefine_broker.text.commands import COMMANDS
from tests.unit.api.world import World, batch_of, values_in
from tests.unit.text.client import README_MESSAGE, TextClient, client_of, front_of, message

ALREADY = "Failed to create subscription. All partitions are already assigned"
BAD_COUNT = "Please try again with correct Partition number"
COMMANDS_ARE = "CRTP, CRTTP, PUBS, SUBS, CONS, UNSUBS, DISC"
NO_GROUP = "Error, topic and consumer_group is a required field"
NO_OFFSET = "Error, subscriptionId and offset value are a required field"

TABLE: list[tuple[str, str]] = [
    # CRTP
    ("CRTP a", "Done"),
    ("CRTP a 1", "Done"),
    ("CRTTP b 3", "Done"),
    ("crttp b 3", "Done"),
    ("CRTP b", "Error, topic 'b' is there already, with 3 partitions and not 1"),
    ("CRTP", "Error, topic name is required field"),
    ('CRTP ""', "Error, topic name is required field"),
    ("CRTP c abc", BAD_COUNT),
    ("CRTP c 0", BAD_COUNT),
    ("CRTP c -1", BAD_COUNT),
    ("CRTP c 1.5", BAD_COUNT),
    ("CRTP c ٣", BAD_COUNT),
    ("CRTP c 99999999999", BAD_COUNT),
    ("CRTP c ", BAD_COUNT),
    ("PUBS c {}", "Error, there is no topic 'c'"),  # nothing was created
    ("CRTP c 30000", "Error, a topic has 1 to 10000 partitions, not 30000"),
    (
        'CRTP "a b"',
        "Error, a topic name is 1 to 249 of a-z A-Z 0-9 . _ -, not 'a b'",
    ),
    ("CRTP a,b", "Error, a topic name is 1 to 249 of a-z A-Z 0-9 . _ -, not 'a,b'"),
    ("CRTP __consumer_offsets", "Error, '__consumer_offsets' is the broker's own topic"),
    (
        "CRTP d 1 x",
        "Error, CRTP has 3 fields, at most 2 are known: CRTP topic [partitions];"
        " a field with spaces is put in double quotes",
    ),
    # PUBS
    (f"PUBS a {README_MESSAGE}", "Done"),
    ('pubs a {"Body":"bare"}', "Done"),
    ("PUBS", "Error, topic name is required field"),
    ("PUBS a", "Error, message is required field"),
    ('PUBS a ""', "Error, message is required field"),
    ("PUBS nowhere {}", "Error, there is no topic 'nowhere'"),
    ("PUBS a hello", "Error, the message is not JSON: Expecting value"),
    ("PUBS __consumer_offsets {}", "Error, '__consumer_offsets' is the broker's own topic"),
    (
        'PUBS a {"Body": "x y"}',
        "Error, field 4 goes on behind its closing quote: a field with spaces is put in double"
        " quotes, and its own are written twice",
    ),
    (
        "PUBS a {} b",
        "Error, PUBS has 3 fields, at most 2 are known: PUBS topic message;"
        " a field with spaces is put in double quotes",
    ),
    # SUBS
    ("SUBS", NO_GROUP),
    ("SUBS a", NO_GROUP),
    ("SUBS a g x", "error converting partition string from user input"),
    ("SUBS a g 0", "0 is not a valid value for partition number"),
    ("SUBS a g -2", "-2 is not a valid value for partition number"),
    ("SUBS nowhere g", "Error, there is no topic 'nowhere'"),
    (
        'SUBS a "g g"',
        "Error, a consumer group is 1 to 249 of a-z A-Z 0-9 . _ -, not 'g g'",
    ),
    ("SUBS a g", '{"Ok":true,"Data":["g-0-{1}"]}'),
    ("SUBS a g", ALREADY),
    ("SUBS a h", '{"Ok":true,"Data":["h-0-{2}"]}'),
    ("SUBS b g 2", '{"Ok":true,"Data":["g-0-{3}","g-1-{4}"]}'),
    ("SUBS b g 2", '{"Ok":true,"Data":["g-2-{5}"]}'),
    ("SUBS b g 2", ALREADY),
    # CONS
    ("CONS", NO_OFFSET),
    ("CONS a", NO_OFFSET),
    ("CONS a g-0-{1}", NO_OFFSET),
    ('CONS a g-0-{1} ""', NO_OFFSET),
    (
        "CONS a g-0-{1} 0",
        '{"Ok":true,"Data":['
        '{"Header":"header","Body":"Hello World!","Key":"124","Offset":0,"Timestamp":{now}},'
        '{"Header":"","Body":"bare","Key":"","Offset":1,"Timestamp":{now}}]}',
    ),
    (
        "cons a h-0-{2} 1",
        '{"Ok":true,"Data":[{"Header":"","Body":"bare","Key":"","Offset":1,"Timestamp":{now}}]}',
    ),
    ("CONS a g-0-{1} 2", '{"Ok":true,"Data":[]}'),
    ("CONS a g-0-{1} 9223372036854775807", '{"Ok":true,"Data":[]}'),
    (
        "CONS a g-0-{1} 9223372036854775808",
        "Error, the offset must not be more than 9223372036854775807",
    ),
    ("CONS a g-0-{1} -1", "Error, the offset must be a whole number of 0 or more, not '-1'"),
    ("CONS a g-0-{1} x", "Error, the offset must be a whole number of 0 or more, not 'x'"),
    ("CONS a g-0-{2} 0", "Error, there is no subscription 'g-0-{2}' of topic 'a'"),
    ("CONS a h-7-{2} 0", "Error, there is no subscription 'h-7-{2}' of topic 'a'"),
    ("CONS b h-0-{2} 0", "Error, there is no subscription 'h-0-{2}' of topic 'b'"),
    ("CONS a what 0", "Error, there is no subscription 'what' of topic 'a'"),
    ("CONS nowhere g-0-{1} 0", "Error, there is no topic 'nowhere'"),
    # UNSUBS
    ("UNSUBS", "Error, topic and subscriptionId are a required field"),
    ("UNSUBS a", "Error, topic and subscriptionId are a required field"),
    ("UNSUBS nowhere g-0-{1}", "Error, there is no topic 'nowhere'"),
    ("UNSUBS a g-0-{1}", "Done"),
    ("UNSUBS a g-0-{1}", "Error, there is no subscription 'g-0-{1}' of topic 'a'"),
    ("CONS a g-0-{1} 0", "Error, there is no subscription 'g-0-{1}' of topic 'a'"),
    ("SUBS a g", '{"Ok":true,"Data":["g-0-{6}"]}'),
    # What brokers say to one another
    ("@SUBS a g 1", ALREADY),
    ("@KEEP a g-0-{6} 2", "Done"),
    ("@KEEP a g-0-{6}", "Error, @KEEP takes a topic, a subscription and an offset"),
    ("@KEEP a g-0-{1} 2", "Error, there is no subscription 'g-0-{1}' of topic 'a'"),
    ("@UNSUBS a g-0-{6}", "Done"),
    # Neither
    ("", f"Error, the line is empty; the commands are {COMMANDS_ARE}"),
    ("SEND a b", f"Error, unknown command 'SEND'; they are {COMMANDS_ARE}"),
    (" CRTP a", f"Error, unknown command ''; they are {COMMANDS_ARE}"),
    ("\x1b[A", f"Error, unknown command '\ufffd[A'; they are {COMMANDS_ARE}"),
    ('PUBS "a', "Error, the quotes of field 2 are not closed"),
    (
        "DISC now",
        "Error, DISC has 1 fields, at most 0 are known: DISC;"
        " a field with spaces is put in double quotes",
    ),
    ("disc", "Done"),
]
"""Line and reply, one session, in this order. `{1}` is the end of a subscription's id: whatever
stands there first."""


def test_every_command_and_every_error_of_the_table() -> None:
    """Checklist rows 40-42, 45-47 and 50."""
    world = World()
    client = client_of(world)
    known: dict[str, str] = {"{now}": str(world.clock.now_ms())}

    for line, expected in TABLE:
        reply = client.say(filled(line, known))
        learn(reply, expected, known)
        assert reply == filled(expected, known), line
    assert client.session.is_closed


def test_the_table_walks_every_command() -> None:
    assert {line.partition(" ")[0].upper() for line, _ in TABLE} >= set(COMMANDS)


def filled(text: str, known: dict[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(name, value)
    return text


def learn(reply: str, expected: str, known: dict[str, str]) -> None:
    """The ends of ids that are new."""
    for number in range(1, 10):
        name = f"{{{number}}}"
        if name in expected and name not in known:
            at = filled(expected, known).index(name)
            known[name] = reply[at : at + 8]


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
    before = world.ctx.counters.produced_batches

    replies = client.send("".join(f"PUBS t {message(str(n))}\n" for n in range(500)).encode())

    assert replies == ["Done"] * 500
    assert world.ctx.counters.produced_batches == before + 1
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
