"""The chain's drawing: one lane per branch, forks where they are, never wider than the terminal."""

from __future__ import annotations

from typing import Any

from josefine_cli.cluster.chain import ASCII, UNICODE, draw


def block(id_: str, parent: str, *, dead: bool = False, committed: bool = True) -> dict[str, Any]:
    return {
        "id": id_,
        "parent": parent,
        "kind": "data",
        "size": 7,
        "what": f"what {id_} changes",
        "committed": committed and not dead,
        "applied": committed and not dead,
        "dead": dead,
    }


def chain(*blocks: dict[str, Any], head: str, commit: str, root: str = "0:0") -> dict[str, Any]:
    return {"root": root, "head": head, "commit": commit, "applied": commit, "blocks": list(blocks)}


def drawn(body: dict[str, Any], width: int | None = None) -> list[str]:
    return [line.text for line in draw(body, ASCII, width)]


def test_a_chain_without_forks_is_one_lane_down_to_genesis() -> None:
    body = chain(block("1:1", "0:0"), block("1:2", "1:1"), head="1:2", commit="1:2")

    assert drawn(body) == [
        "*  1:2      7 B  (head, commit, applied) what 1:2 changes",
        "*  1:1      7 B  what 1:1 changes",
        "#  0:0  genesis: where every chain begins",
    ]


def test_a_dead_branch_leaves_the_trunk_at_its_fork_and_is_crossed_out() -> None:
    body = chain(
        block("1:1", "0:0"),
        block("1:2", "1:1", dead=True),
        block("1:3", "1:2", dead=True),
        block("2:2", "1:1"),
        head="2:2",
        commit="2:2",
    )

    assert [line.text[:5].rstrip() for line in draw(body, UNICODE, None)] == [
        "  ✕",
        "● │",
        "│ ✕",
        "├─╯",
        "●",
        "◆",
    ]
    assert [line.state for line in draw(body, ASCII, None)] == [
        "dead", "committed", "dead", "", "committed", "",
    ]  # fmt: skip
    assert "(dead) what 1:3 changes" in drawn(body)[0]


def test_two_branches_of_one_parent_bend_in_one_line() -> None:
    body = chain(
        block("1:1", "0:0"),
        block("1:2", "1:1", dead=True),
        block("2:2", "1:1", dead=True),
        block("3:2", "1:1"),
        head="3:2",
        commit="3:2",
    )

    graphs = [line.text[:6].rstrip() for line in draw(body, UNICODE, None)]

    assert graphs == ["●", "│ ✕", "│ │ ✕", "├─╯─╯", "●", "◆"]


def test_a_block_that_is_not_committed_yet_is_open() -> None:
    body = chain(
        block("1:1", "0:0"), block("1:2", "1:1", committed=False), head="1:2", commit="1:1"
    )

    assert drawn(body)[0].startswith("o  1:2      7 B  (head) ")
    assert drawn(body)[1].startswith("*  1:1      7 B  (commit, applied) ")


def test_what_was_not_asked_for_and_what_a_snapshot_holds_are_told_apart() -> None:
    newest = block("1:9", "1:8")

    assert drawn(chain(newest, head="1:9", commit="1:9"))[-1].startswith(":  older blocks")
    assert "snapshot" in drawn(chain(newest, head="1:9", commit="1:9", root="1:8"))[-1]
    assert "snapshot" in drawn(chain(head="1:9", commit="1:9", root="1:9"))[0]


def test_no_line_is_wider_than_the_terminal() -> None:
    body = chain(block("1:1", "0:0"), head="1:1", commit="1:1")

    for width in (20, 40, 200):
        lines = drawn(body, width)
        assert max(map(len, lines)) <= width
    assert drawn(body, 20)[0].endswith("~")
    assert drawn(body, 200) == drawn(body)
