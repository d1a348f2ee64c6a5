"""`josefine topics` against a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import josefine


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("cli-topics"))) as process:
        yield process.bootstrap


def test_a_topic_is_created_described_altered_and_deleted(bootstrap: str) -> None:
    """Checklist row 92."""
    made = josefine(bootstrap, "topics", "create", "life", "-p", "3", "-c", "retention.ms=1000000")
    altered = josefine(
        bootstrap, "topics", "alter", "life", "-p", "5", "-c", "segment.ms=70s",
        "--reset-config", "retention.ms",
    )  # fmt: skip
    described = json.loads(josefine(bootstrap, "topics", "describe", "life", "--json").out)
    deleted = josefine(bootstrap, "topics", "delete", "life", "--yes")
    listed = json.loads(josefine(bootstrap, "topics", "list", "--json").out)

    assert (made.code, made.out) == (0, "created life with 3 partitions\n")
    assert (altered.code, altered.err) == (0, "")
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2, 3, 4]
    assert {(p["earliest"], p["latest"]) for p in described["partitions"]} == {(0, 0)}
    assert described["configs"] == {"segment.ms": "70000"}
    assert (deleted.code, deleted.out) == (0, "deleted life\n")
    assert "life" not in [topic["topic"] for topic in listed]


def test_tables_are_for_people(bootstrap: str) -> None:
    josefine(bootstrap, "topics", "create", "shown", "-p", "2")

    listed = josefine(bootstrap, "topics", "list")
    described = josefine(bootstrap, "topics", "describe", "shown")

    assert any(line.split()[:2] == ["shown", "2"] for line in listed.out.splitlines())
    assert "earliest" in described.out
    assert "\x1b[" not in listed.out + described.out


def test_creating_twice_is_an_error_unless_allowed(bootstrap: str) -> None:
    josefine(bootstrap, "topics", "create", "twice", "-p", "2")

    again = josefine(bootstrap, "topics", "create", "twice")
    allowed = josefine(bootstrap, "topics", "create", "twice", "--if-not-exists", "--json")

    assert (again.code, again.err) == (1, "error: topic 'twice' exists already\n")
    assert json.loads(allowed.out) == {"topic": "twice", "created": False, "partitions": 2}


def test_what_cannot_be_done_is_one_sentence_and_exit_code_1(bootstrap: str) -> None:
    """Checklist row 92."""
    josefine(bootstrap, "topics", "create", "errors", "-p", "2")
    cases = {
        ("topics", "describe", "absent"): "topic 'absent' does not exist",
        ("topics", "delete", "absent", "--yes"): "topic 'absent' does not exist",
        ("topics", "alter", "absent", "-p", "2"): "topic 'absent' does not exist",
        ("topics", "alter", "errors", "-p", "1"): "topic 'errors'",
        ("topics", "alter", "errors", "-c", "no.such=1"): "topic 'errors'",
        ("topics", "create", "bad name"): "topic 'bad name'",
        ("topics", "create", "wide", "--replication-factor", "3"): "topic 'wide'",
    }

    for arguments, sentence in cases.items():
        done = josefine(bootstrap, *arguments)
        assert (done.code, done.out) == (1, ""), arguments
        assert done.err.startswith(f"error: {sentence}"), done.err
        assert done.err.count("\n") == 1, done.err


def test_deleting_what_is_not_there_can_be_allowed(bootstrap: str) -> None:
    done = josefine(bootstrap, "topics", "delete", "absent", "--yes", "--if-exists")

    assert (done.code, done.out) == (0, "nothing to delete\n")


def test_what_was_deleted_is_told_before_what_is_not_there(bootstrap: str) -> None:
    josefine(bootstrap, "topics", "create", "gone")

    done = josefine(bootstrap, "topics", "delete", "gone", "absent", "-y")

    assert (done.code, done.out) == (1, "deleted gone\n")
    assert done.err == "error: topic 'absent' does not exist\n"


def test_a_reset_of_an_unknown_configuration_names_the_nearest(bootstrap: str) -> None:
    josefine(bootstrap, "topics", "create", "reset")

    done = josefine(bootstrap, "topics", "alter", "reset", "--reset-config", "retention.mss")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: --reset-config 'retention.mss' is not a topic configuration; "
        "the nearest known key is retention.ms\n"
    )
