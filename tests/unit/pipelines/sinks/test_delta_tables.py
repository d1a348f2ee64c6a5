"""Statements that change a Delta table, and where the dead letters are."""

from __future__ import annotations

import pytest

from pipelines.model.schema_evolution import Steps
from pipelines.sinks.delta_tables import change_columns, constrain, found_folder, letters_folder
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

pytest.importorskip("pyspark")


class Session:
    """A session without tables, whose statements are kept."""

    def __init__(self):
        self.statements = []
        self.catalog = self

    def sql(self, statement):
        self.statements.append(statement)

    def tableExists(self, name):  # noqa: N802
        return False


def test_a_path_and_a_name_with_quotes_are_one_word_of_the_statement():
    session = Session()

    constrain(session, "/a`b c", "x`y", "a > 0")

    assert session.statements == ["ALTER TABLE delta.`/a``b c` ADD CONSTRAINT `x``y` CHECK (a > 0)"]


def test_columns_that_fit_need_no_statement():
    session = Session()

    change_columns(session, "/t", Steps())

    assert session.statements == []


def test_each_new_column_is_added():
    session = Session()

    change_columns(session, "/t", Steps(add=((("a",), "bigint"), (("b", "c"), "string"))))

    assert session.statements == ["ALTER TABLE delta.`/t` ADD COLUMNS (`a` bigint, `b`.`c` string)"]


@pytest.mark.parametrize(
    ("where", "folder"), [("path: /dead", "/dead"), ("table: shop.dead", None)]
)
def test_the_folder_of_dead_letters_is_in_the_file_or_in_the_catalog(where, folder):
    pipeline, _, _ = read(GOOD + f"dead_letter: {{ type: delta, {where} }}\n")

    assert letters_folder(Session(), pipeline) == folder
    assert found_folder(Session(), "shop.dead") is None
