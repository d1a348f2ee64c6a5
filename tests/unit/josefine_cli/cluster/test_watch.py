"""What `josefine cluster watch` tells of two looks at a cluster, and what it shows of one."""

from __future__ import annotations

from typing import Any

from josefine_cli.cluster.watch import Answer, Scene, changes, rows, scene_of, summary


def partition(topic: str, index: int, leader: int = 1, epoch: int = 0, isr: Any = (1, 2)) -> Any:
    return {
        "topic": topic,
        "partition": index,
        "leader": leader,
        "leader_epoch": epoch,
        "replicas": [1, 2],
        "isr": list(isr),
    }


def view(
    *partitions: Any, leader: int = 1, commit: int = 5, fenced: Any = (), of: Any = (1, 2)
) -> Any:
    return {
        "broker_id": 1,
        "raft": {
            "leader": leader,
            "term": 3,
            "commit": commit,
            "voters": [{"id": each} for each in of],
            "observers": [],
        },
        "brokers": [{"id": e, "fenced": e in fenced, "shutting_down": False} for e in of],
        "partitions": list(partitions),
    }


def scene(*views: Any, before: Scene | None = None) -> Scene:
    """As broker 1, 2, … say it; None: it is silent."""
    return scene_of({id_: Answer(each, 4) for id_, each in enumerate(views, 1)}, before)


def told(before: Scene, after: Scene) -> list[str]:
    return list(changes(before, after))


WHOLE = scene(view(partition("a", 0)), view(partition("a", 0)))


def test_nothing_is_told_while_nothing_changes() -> None:
    assert told(WHOLE, scene(view(partition("a", 0)), view(partition("a", 0)))) == []


def test_a_leader_that_moved_and_who_is_in_sync_are_told_in_one_line() -> None:
    after = scene(view(partition("a", 0, 2, 1, (2,)), leader=2))

    assert told(WHOLE, after) == [
        "controller: 1 -> 2, term 3",
        "a-0: leader 1 -> 2, in sync 1,2 -> 2 (epoch 1)",
    ]


def test_a_partition_without_a_leader_and_one_that_is_elected_again_are_told() -> None:
    gone = scene(view(partition("a", 0, -1, 1)))

    assert told(WHOLE, gone) == ["a-0: leader 1 -> none (epoch 1)"]
    assert told(WHOLE, scene(view(partition("a", 0, 1, 1)))) == ["a-0: leader 1 again (epoch 1)"]
    assert "1 offline" in summary(gone)


def test_a_silent_broker_is_told_before_it_is_fenced() -> None:
    silent = scene(view(partition("a", 0)), None)
    fenced = scene(view(partition("a", 0), fenced=(2,)), None)

    assert told(WHOLE, silent) == ["broker 2: serving -> serving, silent"]
    assert told(silent, fenced) == ["broker 2: serving, silent -> fenced, silent"]


def test_brokers_and_topics_that_come_and_go_are_told() -> None:
    grown = scene(view(partition("a", 0), partition("a", 1), partition("b", 0), of=(1, 2, 3)))

    assert told(WHOLE, grown) == [
        "broker 3 is new, serving",
        "topic a: 1 -> 2 partitions",
        "topic b is new, 1 partition",
    ]
    assert told(grown, WHOLE) == [
        "broker 3 is removed",
        "topic a: 2 -> 1 partition",
        "topic b is gone",
    ]


def test_of_many_partitions_that_changed_only_some_are_told() -> None:
    before = scene(view(*(partition("a", index) for index in range(50))))
    after = scene(view(*(partition("a", index, 2, 1) for index in range(50))))

    lines = told(before, after)

    assert len(lines) == 21
    assert lines[-1] == "and 30 more partitions changed"


def test_where_nobody_answers_all_are_silent_and_partitions_are_not_called_gone() -> None:
    silent = scene(None, None, before=WHOLE)

    assert told(WHOLE, silent) == [
        "controller: 1 -> none, term 0",
        "broker 1: serving -> silent",
        "broker 2: serving -> silent",
    ]


def test_the_view_that_knows_most_counts() -> None:
    behind, ahead = view(partition("a", 0)), view(partition("a", 0, 2, 1), commit=9)

    assert told(WHOLE, scene(behind, ahead)) == ["a-0: leader 1 -> 2 (epoch 1)"]


def test_the_table_has_a_row_for_each_broker() -> None:
    answers = {
        1: Answer(view(partition("a", 0), partition("a", 1, 2, 0, (2,))), 4),
        2: Answer(None, 3_000),
    }

    assert rows(scene_of(answers, None), answers) == [
        (1, "serving", "controller", "4 ms", 1, "1 of 2"),
        (2, "serving, silent", "voter", "-", 1, "2 of 2"),
    ]
