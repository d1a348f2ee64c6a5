"""Names in SQL."""

from __future__ import annotations

import pytest

from pipelines.base.quoting import delta_table, quoted, quoted_path, unquoted


@pytest.mark.parametrize("name", ["a", "a b", "d.o", "b`t", "``", "é", "a'b", ""])
def test_a_quoted_name_is_the_name_again(name):
    assert unquoted(quoted(name)) == name
    assert quoted(name).count("`") % 2 == 0


def test_a_path_is_quoted_name_by_name():
    assert quoted_path(("a.b", "c`")) == "`a.b`.`c```"
    assert delta_table("/lake/a`b") == "delta.`/lake/a``b`"
    assert unquoted("plain") == "plain"
