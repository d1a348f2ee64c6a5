"""`josefine consume --share`, and what `groups` and `configs` do for share groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cli import Done, josefine

Ask = Callable[..., Done]
RECORDS = [f"v{n}" for n in range(20)]


@pytest.fixture(scope="module")
def at_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """The command at a broker."""
    with BrokerProcess(Path(tmp_path_factory.mktemp("cli-share"))) as broker:
        yield partial(josefine, broker.bootstrap)


def filled(at_broker: Ask, topic: str) -> str:
    """A topic with 20 records in two partitions."""
    assert at_broker("topics", "create", topic, "-p", "2").code == 0
    for partition in range(2):
        lines = "".join(f"{value}\n" for value in RECORDS[partition::2])
        assert at_broker("produce", topic, "-p", str(partition), stdin=lines).code == 0
    return topic


def test_member_of_a_share_group_reads_what_was_not_accepted(at_broker: Ask) -> None:
    topic = filled(at_broker, "orders")
    done = at_broker("configs", "set", "--group", "workers", "share.auto.offset.reset=earliest")
    assert done.out == "group workers: 1 configuration set\n", done
    shown = json.loads(at_broker("configs", "describe", "--group", "workers", "--json").out)
    assert [(each["name"], each["source"]) for each in shown] == [
        ("share.auto.offset.reset", "group")
    ]

    first = at_broker("consume", topic, "--share", "workers", "--max", "5")
    assert (first.code, first.err, len(first.out.splitlines())) == (0, "", 5), first
    rest = at_broker("consume", topic, "--share", "workers")
    assert (rest.code, rest.err) == (0, ""), rest
    assert sorted(first.out.split() + rest.out.split()) == sorted(RECORDS)

    assert "workers  share  Empty" in at_broker("groups", "list", "--type", "share").out
    assert "workers" not in at_broker("groups", "list", "--type", "classic").out
    all_of_them = json.loads(at_broker("groups", "describe", "--type", "share", "--json").out)
    (described,) = [each for each in all_of_them if each["group"] == "workers"]
    assert described["lag"] == 0
    assert {(each["committed"], each["end"]) for each in described["partitions"]} == {(10, 10)}
    assert "share group in epoch" in at_broker("groups", "describe", "workers").out

    # Once more from the start: the plan first.
    move = ("groups", "reset-offsets", "workers", "--topic", topic, "--to", "5")
    assert "nothing is changed yet" in at_broker(*move).err
    assert "moved 2 offsets of workers" in at_broker(*move, "--execute").out
    again = at_broker("consume", topic, "--share", "workers")
    assert sorted(again.out.split()) == sorted(RECORDS[10:])
    deleted = at_broker("groups", "delete-offsets", "workers", "--topic", topic)
    assert deleted.out == f"workers has no offsets in {topic} any more\n", deleted
    assert at_broker("groups", "delete", "workers", "--yes").out == "deleted workers\n"
    back = at_broker("configs", "remove", "--group", "workers", "share.auto.offset.reset")
    assert back.out == "group workers: 1 configuration back to the default\n", back


def test_new_group_can_be_made_a_share_group(at_broker: Ask) -> None:
    topic = filled(at_broker, "bills")
    move = ("groups", "reset-offsets", "new", "--topic", topic, "--to", "earliest")
    done = at_broker(*move, "--type", "share", "--execute")
    assert (done.code, "moved 2 offsets of new" in done.out) == (0, True), done
    read = at_broker("consume", topic, "--share", "new")
    assert sorted(read.out.split()) == sorted(RECORDS)


def test_what_is_not_for_share_groups_is_refused_in_one_sentence(at_broker: Ask) -> None:
    topic = filled(at_broker, "items")
    refused = at_broker("consume", topic, "--share", "refused", "--from", "latest")
    assert (refused.code, "move the group" in refused.err) == (2, True), refused
    refused = at_broker("consume", topic, "--share", "refused", "--group", "readers")
    assert (refused.code, "--group is not for a member of a share group" in refused.err) == (
        2,
        True,
    ), refused
    at_broker("consume", topic, "--group", "readers")
    refused = at_broker("groups", "delete-offsets", "readers", "--topic", topic)
    assert (refused.code, "is not a share group" in refused.err) == (1, True), refused
    refused = at_broker(
        "groups", "reset-offsets", "readers", "--type", "share", "-t", topic, "--to", "earliest"
    )
    assert (refused.code, "leave --type out" in refused.err) == (1, True), refused
    assert "Name one or more, or give --type" in at_broker("groups", "describe").err
    refused = at_broker("configs", "set", "--group", "refused", "share.record.lock.duration.ms=1s")
    assert "must be from 15000 to 60000" in refused.err, refused
    refused = at_broker("configs", "remove", "--group", "refused", "share.lock")
    assert "is not a group configuration" in refused.err, refused
