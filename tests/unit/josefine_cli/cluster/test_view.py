"""What `josefine cluster status` finds wrong, and when images count as equal."""

from __future__ import annotations

from typing import Any

from josefine_cli.cluster.view import Survey, admin_url, problems, role


def view(
    broker_id: int, *, height: int = 5, digest: str = "a", leader: int = 1, **counts: int
) -> dict[str, Any]:
    return {
        "broker_id": broker_id,
        "cluster_id": "c",
        "waits_for": None,
        "raft": {
            "leader": leader,
            "term": 3,
            "commit": height,
            "voters": [{"id": 1}, {"id": 2}],
            "observers": [{"id": 3}],
        },
        "image": {"height": height, "digest": digest},
        "brokers": [{"id": each, "fenced": False, "shutting_down": False} for each in (1, 2)],
        "counts": {"offline": 0, "under_replicated": 0, **counts},
    }


def survey(*views: dict[str, Any]) -> Survey:
    found = Survey(views={1: None, 2: None} | {each["broker_id"]: each for each in views})
    for each in views:
        found.add(each)
    return found


def test_a_whole_cluster_has_no_problems() -> None:
    found = survey(view(1), view(2))

    assert problems(found) == []
    assert (found.images_equal, found.common_height) == (True, 5)


def test_a_silent_broker_is_a_problem() -> None:
    assert problems(survey(view(1))) == ["broker 2 does not answer, and is serving in the image"]


def test_a_broker_that_waits_says_why() -> None:
    waiting = view(2) | {"waits_for": "waiting for the controller"}

    said = "broker 2 does not serve: waiting for the controller"
    assert problems(survey(view(1), waiting)) == [said]


def test_a_broker_with_a_full_disk_is_not_called_one_that_stops() -> None:
    full = view(1) | {"storage_trouble": "1 bytes free in /data"}
    for each in full["brokers"]:
        each["shutting_down"] = each["id"] == 1

    said = "broker 1 leads nothing until this is resolved: 1 bytes free in /data"
    assert problems(survey(full, view(2))) == [said]


def test_images_are_compared_at_one_height_only() -> None:
    apart = survey(view(1, height=5), view(2, height=6, digest="b"))
    assert problems(apart) == ["images were never seen at one height: 1 at 5, 2 at 6"]

    apart.add(view(1, height=6, digest="b"))
    assert (apart.images_equal, apart.common_height) == (True, 6)

    forked = survey(view(1), view(2, digest="b"))
    assert problems(forked) == ["images differ at height 5"]


def test_a_missing_or_disputed_controller_is_a_problem() -> None:
    assert problems(survey(view(1, leader=-1), view(2, leader=-1)))[0].startswith(
        "there is no controller"
    )
    assert problems(survey(view(1, leader=1), view(2, leader=2))) == [
        "brokers name different controllers: 1 names 1, 2 names 2"
    ]


def test_partitions_without_leader_or_replicas_are_counted() -> None:
    found = survey(view(1, offline=1, under_replicated=4), view(2, offline=1, under_replicated=4))

    assert problems(found) == [
        "1 partition without a leader",
        "4 partitions with too few replicas in sync",
    ]


def test_a_broker_is_controller_voter_observer_or_nothing() -> None:
    assert [role(view(1), each) for each in (1, 2, 3, 4)] == [
        "controller",
        "voter",
        "observer",
        "-",
    ]


def test_a_broker_that_listens_everywhere_is_asked_where_its_clients_find_it() -> None:
    endpoints = {"PLAINTEXT": "b1.example:9092"}

    assert admin_url({"admin": "http://0.0.0.0:9644", "endpoints": endpoints}) == (
        "http://b1.example:9644"
    )
    assert admin_url({"admin": "http://[::]:9644", "endpoints": endpoints}) == (
        "http://b1.example:9644"
    )
    named = {"admin": "http://a:1", "endpoints": endpoints}
    assert admin_url(named) == "http://a:1"
    assert admin_url({"admin": None, "endpoints": endpoints}) is None


def test_before_the_cluster_is_formed_each_broker_says_what_it_waits_for() -> None:
    waiting = view(1, height=0, leader=-1) | {"cluster_id": "", "waits_for": "a majority"}
    found = Survey(views={1: waiting})
    found.add(waiting)

    assert problems(found) == ["broker 1 is in no cluster yet: a majority"]
    assert found.images_equal is None
