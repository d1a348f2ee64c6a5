"""The paths of a file that Spark must be able to reach."""

from __future__ import annotations

from pipelines.run.session import paths_of
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

TABLES = GOOD.replace(
    "transforms:\n",
    "  names: { type: delta, path: 's3a://b/names', schema: id INT }\ntransforms:\n",
).replace("trigger:", "dead_letter: { type: delta, path: 's3a://b/dead' }\ntrigger:")


def test_checkpoint_tables_lookups_and_dead_letters_are_reached_by_spark():
    assert paths_of(read(TABLES)[0]) == ["/ck", "/lake", "s3a://b/names", "s3a://b/dead"]
    assert paths_of(read(GOOD)[0]) == ["/ck", "/lake"]


def test_a_table_by_its_name_has_no_path():
    assert paths_of(read(GOOD.replace("path: /lake", "table: db.lake"))[0]) == ["/ck"]
