"""An Iceberg sink in a file: its keys, what is refused and where, its columns, its catalog."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyiceberg.schema import Schema

from pipelines.base.errors import ConfigError, RunError, SetupError
from pipelines.base.variables import Variables
from pipelines.config.iceberg import CREDENTIAL, TABLE, URI, WAREHOUSE, iceberg_sink
from pipelines.config.keywords import WORDS as VOCABULARY
from pipelines.config.validate import examine
from pipelines.exactly_once.other_chains import ChainName
from pipelines.inspect.preflight import Facts, findings
from pipelines.model.pipeline import Mode, Pipeline
from pipelines.model.schema_evolution import Evolution
from pipelines.sinks.iceberg.columns import (
    SIMPLE,
    schema_of,
    spark_columns,
    types_of,
    unsupported,
)
from pipelines.sinks.targets import target_of
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.sections import said, section
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.iceberg_lab import IcebergLab, batch_of

WORDS = "mode: append, table: shop.orders, catalog: { warehouse: /data/iceberg }"
OUT = f"  out: {{ type: iceberg, inputs: [clean], {WORDS} }}\n"
ICEBERG = GOOD.replace(SINK, OUT)
OWN = ("type", "inputs", "mode", "table", "catalog", "schema_evolution")


def read(words: str = WORDS) -> Pipeline:
    env = {"SECRET": "client:hush"}
    examined = examine(ICEBERG.replace(WORDS, words), "f.yaml", Variables(env=env))
    assert examined.problems == []
    return examined.pipeline


def told(words: str) -> list[str]:
    examined = examine(ICEBERG.replace(WORDS, words), "f.yaml", Variables(env={}))
    return [str(each).removeprefix("f.yaml:14:") for each in examined.problems]


def test_a_sink_has_a_table_and_a_catalog_in_a_file():
    sink = read().sinks["out"]

    assert (sink.type, sink.mode, sink.told) == ("iceberg", Mode.APPEND, "shop.orders")
    assert sink.settings == {"table": "shop.orders", "warehouse": "/data/iceberg"}
    assert complaints(ICEBERG) == []


def test_a_rest_catalogs_credential_is_a_secret_and_is_not_shown():
    words = (
        "mode: append, schema_evolution: add, table: a.b.c, catalog: { uri: 'http://c:8181', "
        "warehouse: prod, credential: '${secret:env:SECRET}' }"
    )

    pipeline = read(words)

    sink = pipeline.sinks["out"]
    assert sink.evolution is Evolution.ADD
    assert (sink.settings["credential"], sink.settings["warehouse"]) == ("client:hush", "prod")
    assert pipeline.secrets == {"client:hush"}
    assert "hush" not in repr(pipeline)
    assert complaints(ICEBERG.replace(WORDS, words)) == []


CATALOG = "catalog: { warehouse: /data/iceberg }"
BAD = {
    WORDS.replace("append", "upsert"): [
        "48: sinks.out.mode: Spark writes files that PyIceberg adds to the table: rows only come: "
        "expected append; found `upsert`, for which there is type delta"
    ],
    WORDS.replace("mode: append, ", ""): [
        "3: sinks.out: `mode` is missing; expected append, merge, upsert or scd2; of a topic "
        "append or update"
    ],
    WORDS.replace("shop.orders", "orders"): [
        "63: sinks.out.table: expected a namespace and a name, such as shop.orders; found `orders`"
    ],
    f"mode: append, table: a.b, {CATALOG}, schema_evolution: widen": [
        "125: sinks.out.schema_evolution: columns of an Iceberg sink do not change their type: "
        "expected none or add"
    ],
    f"mode: append, table: a.b, {CATALOG}, partition_by: [day]": [
        "121: sinks.out.partition_by: `partition_by` is for type delta; this sink's type is iceberg"
    ],
    "mode: append, table: a.b": [
        "3: sinks.out: `catalog` is missing; expected a mapping with warehouse, uri, credential"
    ],
    "mode: append, table: a.b, catalog: { warehouse: 's3://b/c' }": [
        "90: sinks.out.catalog.warehouse: the catalog without a `uri` is a file of this machine: "
        "expected a folder on it, or a `uri`"
    ],
    "mode: append, table: a.b, catalog: { uri: nowhere }": [
        "84: sinks.out.catalog.uri: expected the http or https address of a REST catalog; found "
        "`nowhere`"
    ],
    "mode: append, table: a.b, catalog: { uri: 'http://c', credential: hush }": [
        "108: sinks.out.catalog.credential: a credential must not be in this file: expected "
        "${secret:env:NAME} or ${secret:file:/path}"
    ],
}


@pytest.mark.parametrize("words", BAD)
def test_what_an_iceberg_sink_cannot_have_is_told_with_its_place(words):
    assert told(words) == BAD[words]


def test_an_editor_shows_a_mode_and_a_key_that_the_sink_cannot_have():
    for words in (WORDS.replace("append", "upsert"), f"{WORDS}, partition_by: [id]"):
        assert complaints(ICEBERG.replace(WORDS, words)) != []


@pytest.mark.parametrize("word", [w for w in VOCABULARY["sink"] if w not in OWN])
def test_every_other_key_of_a_sink_is_refused(word):
    line = f"out.{word}: `{word}` is for type "

    assert any(line in each and each.endswith("is iceberg") for each in told(f"{WORDS}, {word}: x"))


def struct(**columns: object) -> dict[str, object]:
    """A schema in Spark's JSON."""
    fields = [{"name": n, "type": kind, "nullable": True} for n, kind in columns.items()]
    return {"type": "struct", "fields": fields}


NESTED = struct(
    tags={"type": "array", "elementType": "string", "containsNull": True},
    prices={"type": "map", "keyType": "string", "valueType": "decimal(10,2)"},
    place=struct(lat="double", at={"type": "array", "elementType": "timestamp"}),
)


def test_each_type_of_spark_comes_back_from_the_table_as_it_went_in():
    simple = {f"c_{kind}": kind for kind in SIMPLE}
    sql = {"integer": "int", "long": "bigint"}

    assert spark_columns(schema_of(struct(**simple))) == {
        name: sql.get(kind, kind) for name, kind in simple.items()
    }
    assert spark_columns(schema_of(NESTED)) == {
        "tags": "array<string>",
        "prices": "map<string,decimal(10,2)>",
        "place": "struct<lat:double,at:array<timestamp>>",
    }
    ids = [*schema_of(NESTED)._lazy_id_to_name]
    assert len(ids) == len(set(ids)) == 9
    assert str(types_of(struct(at="timestamp"))["at"]) == "timestamptz"


def test_a_type_without_a_counterpart_is_refused_with_what_to_do():
    deep = {"type": "array", "elementType": struct(n="short")}

    assert unsupported(struct(n="byte", ok="long", deep=deep, v="variant")) == [
        "column `n`: TINYINT has no counterpart: cast it to INT",
        "column `deep`: SMALLINT has no counterpart: cast it to INT",
        "column `v`: VARIANT has no counterpart: cast it to STRING or BINARY",
    ]
    assert unsupported(NESTED) == []


def test_a_type_that_no_sink_writes_is_equal_to_none_of_sparks():
    from pyiceberg.types import NestedField, UUIDType

    schema = Schema(NestedField(1, "id", UUIDType(), required=False))

    assert spark_columns(schema) == {"id": "iceberg uuid"}


def described(tmp_path: Path) -> Pipeline:
    return read(WORDS.replace("/data/iceberg", f"{tmp_path}/warehouse"))


def test_a_sink_is_described_by_its_catalog_and_no_file_is_made(tmp_path):
    pipeline = described(tmp_path)
    target = target_of(pipeline.sinks["out"])
    name = ChainName(pipeline="p", sink="out")

    before = target.describe(name)
    assert before is not None
    assert (before.tip, before.others(), before.newest) == (None, [], None)
    assert [*tmp_path.iterdir()] == []
    batch_of(IcebergLab(tmp_path).loaded("r1"), 0, 3)

    after = target.describe(name)
    assert after is not None
    assert after.newest is not None
    assert (after.newest.version, after.queries()) == (1, {""})
    assert target.describe(ChainName(pipeline="p", sink="new")).others() != []


def test_check_asks_the_catalog(tmp_path):
    pipeline = described(tmp_path)
    target = target_of(pipeline.sinks["out"])
    facts = Facts(sources={}, folders=(), targets={"out": ""})
    what = f"sink `out`: table shop.orders of {tmp_path}/warehouse"

    assert target.probe(pytest.fail) == ""
    assert str(findings(pipeline, facts)[-1]) == f"ok: {what}: its catalog answers"
    (tmp_path / "warehouse").write_text("no folder")
    assert target.probe(pytest.fail) == f"{tmp_path}/warehouse is not a folder"
    nowhere = read("mode: append, table: a.b, catalog: { uri: 'http://127.0.0.1:1' }")
    why = target_of(nowhere.sinks["out"]).probe(pytest.fail)
    assert why is not None
    assert why.startswith("the Iceberg catalog http://127.0.0.1:1 does not answer: ")


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)

    with pytest.raises(SetupError) as caught:
        target_of(read().sinks["out"]).describe(ChainName(pipeline="p", sink="out"))
    assert str(caught.value) == (
        "sink `out`: PyIceberg writes its table; "
        "pip install 'pyiceberg[pyarrow,sql-sqlite]>=0.12,<0.13'"
    )


def test_lost_ranges_are_recorded_beside_the_checkpoint():
    pipeline = read()

    assert target_of(pipeline.sinks["out"]).loss_table(pipeline).told == "/ck/orders.out.lost"


def opened(lab: IcebergLab, evolution: Evolution = Evolution.NONE):
    from dataclasses import replace

    from pipelines.sinks.commits import Link
    from pipelines.sinks.iceberg.target import OpenIceberg
    from pipelines.sinks.target import TableAt, TargetRun

    run = TargetRun(
        session=pytest.fail,
        link=Link(pipeline="p", sink="out", run="r"),
        losses=TableAt(path="/lost"),
    )
    chain = lab.chain("r")
    return OpenIceberg(
        replace(lab.sink, evolution=evolution), chain, run, struct(n="long", day="date")
    )


def test_a_new_column_is_added_where_the_file_says_so(tmp_path):
    lab, wants = IcebergLab(tmp_path), {"N": "bigint", "day": "date"}
    refused = opened(lab)
    with pytest.raises(RunError, match="day is not there, the pipeline has date"):
        refused.fit(wants, {})
    batch_of(lab.loaded("r1"), 0, 2)

    adding = opened(lab, Evolution.ADD)
    assert not adding.fit(wants, {})
    adding.change()

    assert adding.fit(wants, {})
    batch_of(lab.loaded("r2"), 2, 4)
    assert spark_columns(lab.table().schema()) == {"n": "bigint", "day": "date"}
    assert lab.numbers() == [0, 1, 2, 3]


@pytest.mark.parametrize("what", ["required", "partitioned"])
def test_a_table_that_no_sink_can_fill_is_refused(tmp_path, what):
    lab = IcebergLab(tmp_path)
    table = lab.table()
    if what == "required":
        with table.update_schema(allow_incompatible_changes=True) as schema:
            schema.make_column_optional("n")
            schema.update_column("n", required=True)
    else:
        with table.update_spec() as spec:
            spec.add_identity("n")

    with pytest.raises(RunError, match="may not be null" if what == "required" else "partitioned"):
        opened(lab).fit({"n": "bigint"}, {})


def test_a_column_of_a_type_that_iceberg_lacks_is_refused_at_the_sinks_place():
    class Frame:
        columns = ("n",)

        class schema:  # noqa: N801
            @staticmethod
            def jsonValue():  # noqa: N802
                return struct(n="short")

    pipeline = read()
    with pytest.raises(ConfigError) as caught:
        target_of(pipeline.sinks["out"]).rows(pipeline, Frame())
    assert str(caught.value) == (
        "f.yaml:14:3: sinks.out: column `n`: SMALLINT has no counterpart: cast it to INT"
    )


@pytest.mark.parametrize(
    ("words", "settings", "wrong"),
    [
        ("warehouse: /w/", {WAREHOUSE: "/w"}, []),
        ("uri: 'https://c/v1', warehouse: prod", {URI: "https://c/v1", WAREHOUSE: "prod"}, []),
        ("uri: 'ftp://c'", {URI: "ftp://c"}, ["catalog.uri: expected the http or https address of "
         "a REST catalog; found `ftp://c`"]),
        ("credential: x", {CREDENTIAL: "x"}, [
            "catalog: `warehouse` is missing; expected the folder of the Iceberg tables; with uri "
            "the name that the catalog has for it",
            "catalog.credential: the catalog without a `uri` asks for none",
            "catalog.credential: a credential must not be in this file: expected "
            "${secret:env:NAME} or ${secret:file:/path}"]),
        ("warehouse: 's3a://b/w'", {WAREHOUSE: "s3a://b/w"}, [
            "catalog.warehouse: the catalog without a `uri` is a file of this machine: expected a "
            "folder on it, or a `uri`"]),
    ],
)  # fmt: skip
def test_a_catalog_is_a_file_of_this_machine_or_has_an_address(words, settings, wrong):
    reader = section(f"type: iceberg\nmode: append\ntable: a.b\ncatalog: {{ {words} }}", "sink")

    found = iceberg_sink("out", reader, "append", "clean")

    assert found.settings == {TABLE: "a.b", **settings}
    assert said(reader) == wrong
