"""What the dashboard shows, from what brokers told."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.records.builder import Record
from josefine_cli.dashboard.browse import SHOWN_BYTES_MAX, asked, shown
from josefine_cli.dashboard.chain_picture import merged, picture
from josefine_cli.dashboard.server import allowed_hosts
from josefine_cli.dashboard.views import Told, page_view, pause_s, topic_view


def block(id_: str, parent: str, *, dead: bool = False, committed: bool = True) -> dict[str, Any]:
    return {
        "id": id_, "parent": parent, "kind": "change", "what": f"block {id_}",
        "dead": dead, "committed": committed and not dead, "applied": committed and not dead,
    }  # fmt: skip


FORK = [
    block("1:1", "0:0"),
    block("1:2", "1:1"),
    block("1:3", "1:2", dead=True),
    block("1:4", "1:3", dead=True),
    block("2:3", "1:2"),
    block("2:4", "2:3", committed=False),
]


def places(blocks: list[dict[str, Any]]) -> dict[str, tuple[int, int, str]]:
    return {
        node["id"]: (node["column"], node["lane"], node["state"])
        for node in picture(blocks)["nodes"]
    }


def test_dead_branch_has_a_lane_of_its_own_beside_the_living_chain() -> None:
    assert places(FORK) == {
        "1:1": (0, 0, "committed"),
        "1:2": (1, 0, "committed"),
        "1:3": (2, 1, "dead"),
        "1:4": (3, 1, "dead"),
        "2:3": (2, 0, "committed"),
        "2:4": (3, 0, "open"),
    }
    assert ["1:2", "1:3"] in picture(FORK)["edges"]


def test_two_dead_branches_of_one_block_do_not_meet() -> None:
    found = places([*FORK, block("3:3", "1:2", dead=True)])

    assert {found["1:3"][1], found["3:3"][1]} == {1, 2}


def test_lane_is_used_again_where_it_is_free() -> None:
    later = block("5:6", "4:5", dead=True)
    found = places([*FORK, block("2:5", "2:4"), block("4:5", "2:4"), later])

    assert found["5:6"][1] == 1


def test_order_of_the_blocks_does_not_matter() -> None:
    assert places(FORK) == places(FORK[::-1])


def test_branch_that_one_broker_saw_die_is_dead_and_what_one_committed_is_committed() -> None:
    late = [block("1:1", "0:0", committed=False), block("1:3", "1:2", committed=False)]
    found = {each["id"]: each for each in merged([late, FORK], 60)}

    assert found["1:3"]["dead"]
    assert found["1:1"]["committed"]
    assert [each["id"] for each in merged([FORK], 2)] == ["1:4", "2:4"]


def told(**changes: Any) -> Told:
    partition = {
        "topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 3, "replicas": [1, 2],
        "isr": [1], "under_replicated": True,
    }  # fmt: skip
    broker = {"fenced": False, "shutting_down": False, "rack": None, "endpoints": {"A": "h:1"}}
    view = {
        "broker_id": 1, "cluster_id": "c", "controller": 1,
        "raft": {"commit": 7, "applied": 7, "term": 2, "role": "leader"},
        "counts": {"topics": 1, "offline": 0, "under_replicated": 1, "brokers": 2, "live": 1},
        "brokers": [broker | {"id": 1}, broker | {"id": 2, "fenced": True}],
        "partitions": [partition],
    }  # fmt: skip
    counts = {"size": 10, "bytes_in": 5, "bytes_out": 0, "records_in": 1}
    local = {
        "broker_id": 1, "monotonic_ms": 9, "topics": {"orders": counts, "deleted": counts},
        "groups": [{"group": "g", "lag": 3}], "groups_omitted": 2,
        "transactions": [], "transactions_omitted": 0,
    }  # fmt: skip
    values: dict[str, Any] = {"clusters": {1: view}, "locals": {1: local}, "chains": {}}
    return Told(**values | changes)


def test_broker_that_does_not_answer_is_told_by_the_others() -> None:
    first, second = page_view(told())["brokers"]

    assert (first["state"], first["answers"], first["led"]) == ("serving", True, 1)
    assert (second["state"], second["answers"], second["height"]) == ("fenced", False, None)


def test_topics_are_summed_over_brokers_and_groups_name_their_coordinator() -> None:
    locals_ = dict(told().locals)
    locals_[2] = locals_[1] | {"broker_id": 2}
    shown_ = page_view(told(locals=locals_))

    (topic,) = shown_["topics"]
    assert (topic["size"], topic["under_replicated"], topic["offline"]) == (20, 1, 0)
    assert [(each["group"], each["broker"]) for each in shown_["groups"]] == [("g", 1), ("g", 2)]
    assert shown_["groups_omitted"] == 4


def test_without_any_broker_the_page_says_so() -> None:
    assert page_view(told(clusters={})) == {"error": "no broker answers"}


def test_partition_has_the_size_that_its_leader_tells() -> None:
    details = {
        1: {"partitions": {"0": {"size": 9, "start": 1, "end": 4}}},
        2: {"partitions": {"0": {"size": 7, "start": 0, "end": 3}}},
    }
    (row,) = topic_view("orders", told().clusters, details)["partitions"]

    assert (row["size"], row["start"], row["end"], row["isr"]) == (9, 1, 4, [1])


def test_counters_of_a_broker_come_with_its_clock() -> None:
    """A rate by the times at which answers arrive has spikes."""
    sums = {"bytes_in": 10, "bytes_out": 0, "records_in": 2}

    assert page_view(told())["traffic"] == {"1": sums | {"monotonic_ms": 9}}


def test_the_pause_between_two_polls_is_bounded() -> None:
    assert pause_s(0.001) == 2.0
    assert pause_s(0.05) == 5.0
    assert pause_s(0.5) == 10.0


def test_bytes_that_are_no_text_are_base64_and_long_ones_are_cut() -> None:
    record = Record(b"\xff", b"x" * (SHOWN_BYTES_MAX + 1), (("h", None),), 0, 5)

    found = shown(record)

    assert found["key_base64"] == "/w=="
    assert len(found["value"]) == SHOWN_BYTES_MAX
    assert found["value_bytes"] == SHOWN_BYTES_MAX + 1
    assert found["headers"] == [{"name": "h", "value": None}]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({}, "topic: name one"),
        ({"topic": "t", "offset": "-1"}, "offset=-1: expected a number"),
        ({"topic": "t", "limit": "1000"}, "limit: expected a number from 1 to 200"),
    ],
)
def test_query_that_makes_no_sense_is_told(query: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        asked(query)


def test_served_for_the_names_of_its_address_alone() -> None:
    assert "127.0.0.1" in allowed_hosts("127.0.0.1")
    assert "evil.example" not in allowed_hosts("127.0.0.1")
    assert allowed_hosts("0.0.0.0") == set()
    assert allowed_hosts("dash.example") == {"dash.example"}
