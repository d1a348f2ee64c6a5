"""The difference of rows as text and as JSON."""

from __future__ import annotations

from pipelines.deploy.row_diff import Example, RowDiff


def diff(**more):
    given = {"added": 0, "removed": 0, "changed": 0, "keys": ("id",), **more}
    return RowDiff(sink="lake", old_rows=1200, new_rows=1201, **given)


def test_a_difference_is_counted_and_shown_with_examples():
    found = diff(
        added=1,
        changed=2,
        left_out=("more",),
        examples=(Example(old='{"id":1}', new='{"id":1,"n":2}'), Example(old=None, new="{}")),
    )

    assert list(found.lines()) == [
        "lake: 1,200 rows -> 1,201 rows by id",
        "    1 added, 0 removed, 2 changed",
        "    not compared, because only one side has them: more",
        '    - {"id":1}',
        '    + {"id":1,"n":2}',
        "    + {}",
    ]
    assert found.to_json()["examples"][1] == {"old": None, "new": "{}"}
    assert not found.is_same


def test_without_keys_rows_are_only_added_and_removed():
    assert list(diff(keys=(), added=1).lines())[1] == "    1 added, 0 removed"
    assert list(diff().lines())[1] == "    the same rows"
