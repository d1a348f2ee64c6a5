"""`josefine journal` against a real broker."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import Done, josefine, josefine_process

_NUMBERS = itertools.count(1)
WAIT_S = 90.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("cli-journal"))) as process:
        yield process.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"journal-{next(_NUMBERS)}"
    assert josefine(bootstrap, "topics", "create", name, "-p", "1").code == 0
    return name


def journal(bootstrap: str, verb: str, topic: str, *arguments: str, stdin: str = "") -> Done:
    return josefine(bootstrap, "journal", verb, topic, "alice", *arguments, stdin=stdin)


def objects(done: Done) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_journal_is_appended_read_deleted_and_purged(bootstrap: str, topic: str) -> None:
    lines = '{"payload": {"deposit": 100}, "tags": ["in"]}\n\n{"payload": {"withdraw": 30}}\n'

    empty = journal(bootstrap, "pointer", topic)
    first = journal(bootstrap, "append", topic, stdin=lines)
    second = journal(bootstrap, "append", topic, stdin='{"text": "note"}')
    read = journal(bootstrap, "read", topic)
    later = journal(bootstrap, "read", topic, "--from", "3")
    pointer = journal(bootstrap, "pointer", topic)
    deleted = journal(bootstrap, "delete", topic, "--to", "2", "--yes")
    rest = journal(bootstrap, "read", topic)
    purged = journal(bootstrap, "purge", topic, "--yes")
    gone = journal(bootstrap, "read", topic), journal(bootstrap, "pointer", topic, "--json")

    assert (empty.code, empty.out, empty.err) == (0, "", "journal 'alice' is empty\n")
    assert first.out == "appended 2 events to alice: 1 to 2, partition 0 offset 2\n"
    assert second.out == "appended 1 event to alice: 3, partition 0 offset 4\n"
    assert read.out == '1\t{"deposit": 100} [in]\n2\t{"withdraw": 30}\n3\tnote\n'
    assert (later.out, pointer.out) == ("3\tnote\n", "3\n")
    assert deleted.out == "deleted the events up to 2 of alice\n"
    assert (rest.out, purged.out) == ("3\tnote\n", "purged alice\n")
    assert (gone[0].out, json.loads(gone[1].out)["pointer"]) == ("", None)


def test_what_is_read_as_json_can_be_appended_elsewhere(bootstrap: str, topic: str) -> None:
    binary = base64.b64encode(b"\x00\xff").decode()
    given = [
        {"seq_nr": 4, "tags": ["a", "ä"], "payload": [1, None]},
        {"seq_nr": 7, "payload": None},
        {"seq_nr": 8, "text": "t\n"},
        {"seq_nr": 9, "payload_base64": binary},
        {"seq_nr": 10},
    ]
    options = ("--header", "by=me", "--expire-after", "1 day", "--json")

    appended = journal(
        bootstrap, "append", topic, *options, stdin="\n".join(map(json.dumps, given))
    )
    read = journal(bootstrap, "read", topic, "--json")
    copied = josefine(bootstrap, "journal", "append", topic, "bob", stdin=read.out)
    again = objects(josefine(bootstrap, "journal", "read", topic, "bob", "--json"))

    assert objects(appended) == [
        {"topic": topic, "journal": "alice", "partition": 0, "offset": 0,
         "first_seq_nr": 4, "last_seq_nr": 10}
    ]  # fmt: skip
    found = objects(read)
    assert [{n: each[n] for n in each if n in given[at]} for at, each in enumerate(found)] == given
    assert {(each["expire_after"], *each["headers"][0].values()) for each in found} == {
        ("1 day", "by", "me")
    }
    assert copied.code == 0, copied.err
    assert [{n: each[n] for n in each if n in given[at]} for at, each in enumerate(again)] == given


def test_writer_that_knows_an_older_number_is_refused(bootstrap: str, topic: str) -> None:
    """Checklist row 66."""
    first = journal(bootstrap, "append", topic, "--expect", "0", stdin='{"payload": 1}')
    late = journal(bootstrap, "append", topic, "--expect", "0", stdin='{"payload": 2}')

    assert first.code == 0, first.err
    assert (late.code, late.err) == (
        1,
        f"error: journal 'alice' of topic '{topic}': sequence number 0 was expected to be the "
        "last, 1 is: another writer was faster\n",
    )
    assert journal(bootstrap, "read", topic).out == "1\t1\n"


def test_reader_sees_what_other_processes_were_told_is_written(bootstrap: str, topic: str) -> None:
    """Checklist row 60. Appended by one process, read by the next, ten times; the last is another
    process still."""
    for n in range(1, 11):
        written = journal(bootstrap, "append", topic, stdin=f'{{"payload": {n}}}')
        assert written.code == 0, written.err
        if n in (1, 10):
            with josefine_process(bootstrap, "journal", "append", topic, "alice") as other:
                _, err = other.communicate('{"payload": "other"}', timeout=WAIT_S)
                assert other.returncode == 0, err
            read = journal(bootstrap, "read", topic).out.splitlines()
            assert read[-1] == f'{len(read)}\t"other"'
    with josefine_process(bootstrap, "journal", "read", topic, "alice") as reader:
        out, err = reader.communicate(timeout=WAIT_S)

    assert (reader.returncode, err) == (0, "")
    assert [line.split("\t")[0] for line in out.splitlines()] == [str(n) for n in range(1, 13)]


MISTAKES = [
    ("append", (), "", 1, "there is no event in the input: a line is an object of seq_nr, …"),
    ("append", (), "5", 1, "line 1: not a JSON object"),
    ("append", (), "{\n", 1, "line 1: not JSON: Expecting property name"),
    ("append", (), '{"payload":1}\n{"paylod":1}', 1, "line 2: unknown field 'paylod': did you"),
    ("append", (), '{"payload":1,"text":"a"}', 1, "line 1: payload and text: an event has one"),
    ("append", (), '{"seq_nr":0}', 1, "line 1: sequence number 0 is not within 1 to"),
    ("append", (), '{"seq_nr":"1"}', 1, 'line 1: seq_nr "1" is not a whole number'),
    ("append", (), '{"tags":["a","a"]}', 1, "line 1: event 1: duplicate tag: a"),
    ("append", (), '{"tags":1}', 1, "line 1: tags is not a list of strings"),
    ("append", (), '{"text":1}', 1, "line 1: text is not a string"),
    ("append", (), '{"payload_base64":"?"}', 1, "line 1: payload_base64 is not valid base64"),
    ("append", (), '{"seq_nr":1}\n{}', 1, "event 2 of the input: give seq_nr in all events"),
    ("append", (), '{"seq_nr":2}\n{"seq_nr":1}', 1, "event 1 follows event 2"),
    ("append", ("--expect", str(2**63 - 1)), "{}", 1, "sequence number 9223372036854775808"),
    ("append", ("--expire-after", "soon"), "{}", 1, "'soon' is not a duration such as '1 day'"),
    ("append", ("--header", "by"), "{}", 2, "--header 'by' is not NAME=VALUE"),
    ("append", ("nowhere.jsonl",), "", 1, "nowhere.jsonl: no such file or directory"),
    ("read", ("--from", "0"), "", 2, "invalid value for '--from'"),
    ("delete", ("--yes",), "", 2, "give either --to NUMBER or --all"),
    ("delete", ("--all", "--to", "1", "--yes"), "", 2, "give either --to NUMBER or --all"),
    ("delete", ("--all",), "", 2, "deleting without a terminal to ask on needs --yes"),
    ("purge", (), "", 2, "purging without a terminal to ask on needs --yes"),
    ("purge", ("--yes", "-b", "http://h:1"), "", 2, "'http://h:1' has a scheme"),
    ("read", ("-b", "h"), "", 2, "'h' is not a broker address: expected host:port"),
]


@pytest.mark.parametrize(("verb", "arguments", "stdin", "code", "said"), MISTAKES)
def test_mistake_is_one_sentence_and_writes_nothing(
    bootstrap: str, topic: str, verb: str, arguments: tuple[str, ...], stdin: str, code: int,
    said: str,
) -> None:  # fmt: skip
    done = journal(bootstrap, verb, topic, *arguments, stdin=stdin)

    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"error: {said}"), done.err
    assert done.err.count("\n") == 1
    assert journal(bootstrap, "pointer", topic).err == "journal 'alice' is empty\n"


def test_topic_that_is_not_there_is_named(bootstrap: str) -> None:
    for verb, arguments in (("read", ()), ("pointer", ()), ("purge", ("--yes",))):
        done = josefine(bootstrap, "journal", verb, "nowhere", "alice", *arguments)
        assert (done.code, done.err) == (1, "error: topic 'nowhere' does not exist\n")


VERBS = (
    ("read",),
    ("pointer",),
    ("append",),
    ("delete", "--all", "--yes"),
    ("purge", "--yes"),
)
ANY_STORE = ("--store", "no-store-is-here")
"""What is refused is refused before a store is looked at."""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--partitions", "4"), "has 4 partitions, but its journals were written over 1"),
        (("--config", "cleanup.policy=compact"), "has cleanup.policy=compact"),
    ],
    ids=["widened", "compacted"],
)
def test_topic_that_journals_cannot_be_read_from_is_refused_by_every_verb(
    bootstrap: str, topic: str, arguments: tuple[str, ...], said: str
) -> None:
    assert journal(bootstrap, "append", topic, stdin='{"text": "x"}').code == 0
    altered = josefine(bootstrap, "topics", "alter", topic, *arguments)
    assert altered.code == 0, altered.err

    done = [journal(bootstrap, verb, topic, *more, stdin='{"text": "y"}') for verb, *more in VERBS]
    done += [
        josefine(bootstrap, "journal", verb, topic, *more, *ANY_STORE)
        for verb, *more in (("status",), ("replicate", "--once"))
    ]

    for each in done:
        assert (each.code, each.out, said in each.err) == (1, "", True), each
        assert each.err.count("\n") == 1, each


def test_retention_without_a_store_is_warned_of_and_what_it_takes_is_named(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    def append(number: int, *more: str) -> Done:
        event = f'{{"seq_nr": {number}, "text": "x"}}'
        return journal(bootstrap, "append", topic, "-", *more, stdin=event)

    config = ("--config", "retention.ms=-1", "--config", "retention.bytes=-1")
    assert josefine(bootstrap, "topics", "alter", topic, *config).code == 0
    assert [append(n, "--expect", str(n - 1)).err for n in (1, 2, 3)] == [""] * 3
    config = ("--config", "retention.ms=3600000")
    assert josefine(bootstrap, "topics", "alter", topic, *config).code == 0

    warned, stored = append(4), append(5, "--store", str(tmp_path))
    cut = josefine(bootstrap, "delete-records", topic, "--before", "0:2", "--yes")
    assert cut.code == 0, cut.err
    lost = [
        journal(bootstrap, "read", topic),
        journal(bootstrap, "append", topic, stdin='{"text": "y"}'),
        append(6, "--expect", "5"),
    ]

    assert (warned.code, stored.code, stored.err) == (0, 0, "")
    assert "warning: topic" in warned.err
    assert "has retention.ms=3600000 and no store is given" in warned.err
    for each in lost:
        assert (each.code, each.out) == (1, ""), each
        assert f"partition {topic}-0: the records from 0 to 1 left the topic" in each.err
