"""Tables that a stream is joined with, as the file says them; `lint` and drawings know them."""

from __future__ import annotations

import pytest

from pipelines.base.errors import RunError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.dead_letters.routing import Way, way
from pipelines.inspect.graph import as_mermaid, graph_of
from pipelines.lint.lint import lint_file
from pipelines.model.lineage import inputs_of, lineage
from pipelines.model.lookup import Lookup
from pipelines.transforms import lookups as of_lookups
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD, complaint
from tests.unit.pipelines.tiny_spark import Frame

LOOKUP = '  names: { type: delta, path: /names, schema: "id INT, name STRING" }\n'
JOINED = GOOD.replace("transforms:", LOOKUP + "transforms:").replace(
    "{ inputs: [raw], sql: select value.* from raw }",
    "\n    inputs: [raw, names]\n"
    "    sql: select value.id, name from raw left join names on value.id = id",
)


def pipeline_of(text=JOINED):
    return validate(load(text, "f.yaml", {}))


def linted(tmp_path, text):
    file = tmp_path / "f.yaml"
    file.write_text(text)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in lint_file(file, {}).problems]


def test_a_table_is_no_stream(tmp_path):
    pipeline = pipeline_of()
    lookup = pipeline.lookups["names"]

    assert (lookup.path, lookup.table, lookup.schema) == ("/names", None, "id INT, name STRING")
    assert [*pipeline.sources] == ["raw"]
    assert lineage(pipeline, "clean") == (("raw",), ("clean",))
    assert inputs_of(pipeline, "clean") == {"raw", "names"}
    assert linted(tmp_path, JOINED) == []
    assert complaints(JOINED) == []
    named = JOINED.replace("path: /names", "table: lake.names")
    assert pipeline_of(named).lookups["names"].told == "lake.names"
    assert complaints(named) == []


def test_its_columns_are_known_to_lint(tmp_path):
    (said,) = linted(tmp_path, JOINED.replace("value.id, name", "value.id, nmae"))

    assert "no column `nmae`" in said


def test_it_is_drawn_and_told_where_nothing_uses_it(tmp_path):
    drawn = as_mermaid(graph_of(pipeline_of()))

    assert "source_names --> transform_clean" in drawn
    unused = GOOD.replace("transforms:", LOOKUP + "transforms:")
    assert linted(tmp_path, unused) == [
        "f.yaml:11:3: sources.names: no sink uses it, directly or through a transform"
    ]
    assert as_mermaid(graph_of(pipeline_of(unused)))


def test_rows_of_tests_are_its_columns():
    text = JOINED + (
        "tests:\n  - name: joins\n    given: { raw: [ { value: { id: 1 } } ], names: [ { id: 1, "
        "name: a } ] }\n    expect: { clean: { count: 1 } }\n"
    )
    (case,) = pipeline_of(text).cases

    assert case.tables == {"names": ({"id": 1, "name": "a"},)}
    assert [*case.given] == ["raw"]
    assert complaints(text) == []
    assert pipeline_of(text).with_rows(case.tables).lookups["names"].rows == case.tables["names"]
    assert pipeline_of(text).with_rows({}).lookups["names"].rows == ()


def test_a_letter_that_a_joined_node_left_out_comes_through_it_alone():
    assert way(pipeline_of(), "clean", {"raw"}) is Way.ALL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (JOINED.replace("path: /names", "path: /names, table: t"),
         "f.yaml:11:3: sources.names: expected exactly one of `path` and `table`"),
        (JOINED.replace("path: /names, ", ""),
         "f.yaml:11:3: sources.names: expected exactly one of `path` and `table`"),
        (JOINED.replace(', schema: "id INT, name STRING"', ""),
         "f.yaml:11:3: sources.names: `schema` is missing; expected the table's columns that are "
         "used, as in SQL, or the name of a .ddl file"),
        (JOINED.replace("name STRING", "name STRNG"),
         "f.yaml:11:47: sources.names.schema: no type `STRNG`; did you mean `STRING`?"),
        (JOINED.replace("path: /names", "path: /names, start: latest"),
         "f.yaml:11:46: sources.names.start: `start` is for a stream of the table: add "
         "`stream: true`"),
        (JOINED.replace("inputs: [clean]", "inputs: [names]"),
         "f.yaml:17:32: sinks.lake.inputs: `names` is a table, no stream: expected a transform "
         "that joins them"),
        (JOINED.replace("inputs: [raw, names]", "inputs: [names]"),
         "f.yaml:17:32: sinks.lake.inputs: `clean` is made of tables alone: expected a stream "
         "among its inputs"),
        (JOINED + "dead_letter: { type: delta, path: /dead }\nchecks:\n"
         "  good: { on: clean, expr: name > 'a', action: dead_letter }\n",
         "f.yaml:21:48: checks.good.action: `clean` is joined with `names`, which may change: a "
         "record would be a dead letter in one sink and none in another; expected warn, drop or "
         "fail"),
        (JOINED.replace("  clean:", "  names:"), "transforms.names: `names` is a source already"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(text, said):
    assert said in complaint(text)


class Table(Frame):
    """A table, or the columns that the file names, by their types as in SQL."""

    def __init__(self, *, error=None, **kinds):
        super().__init__([dict.fromkeys(kinds, 1)], [*kinds])
        self.dtypes, self.error = [*kinds.items()], error


class Session:
    """A session with one table; `createDataFrame` has the columns of the file."""

    def __init__(self, wants, table):
        self.wants, self.found, self.asked = wants, table, ""
        self.read = self

    def createDataFrame(self, rows, schema):  # noqa: N802
        return self.wants

    def format(self, name):
        assert name == "delta"
        return self

    def load(self, path):
        self.asked = path
        if self.found.error:
            raise self.found.error
        return self.found

    table = load


def lookup(path="/names", table=None, rows=None):
    place = pipeline_of().lookups["names"].place
    return Lookup(name="names", place=place, path=path, table=table, schema="x", rows=rows)


def test_only_the_columns_that_the_file_names_are_read():
    session = Session(Table(id="int"), Table(ID="int", secret="string"))

    found = of_lookups.rows_of(session, lookup(path=None, table="shop.names"))

    assert (found.columns, session.asked) == (["id"], "shop.names")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"id": "bigint"}, "`id` is BIGINT, not INT"),
        ({"other": "int"}, "no column `id`"),
    ],
)
def test_a_table_with_other_columns_is_refused_with_each_difference(table, why):
    with pytest.raises(RunError) as caught:
        of_lookups.rows_of(Session(Table(id="int"), Table(**table)), lookup())

    assert str(caught.value) == f"source `names`: its `schema` is not that of /names: {why}"


def test_a_table_that_cannot_be_read_is_named_with_sparks_reason():
    errors = pytest.importorskip("pyspark.errors")
    broken = Table(error=errors.AnalysisException("[PATH_NOT_FOUND] Path does not exist: /names."))

    with pytest.raises(RunError, match=r"^source `names`: /names cannot be read: .*not exist"):
        of_lookups.rows_of(Session(Table(id="int"), broken), lookup())


def test_in_a_test_without_rows_the_table_is_empty_and_is_not_read():
    wants = Table(id="int")

    assert of_lookups.rows_of(Session(wants, Table(error=OSError())), lookup(rows=())) is wants


@pytest.mark.parametrize(
    ("path", "table", "told"), [("/a", None, "/a"), (None, "b.c", "b.c"), ("", None, "")]
)
def test_a_lookup_is_shown_by_its_path_or_name(path, table, told):
    assert lookup(path, table).told == told
