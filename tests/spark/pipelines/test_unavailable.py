"""Debezium's placeholders in upsert and scd2: against a model, however the changes are cut."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import pytest

from josefine_arrow.formats.debezium.unavailable import PLACEHOLDER, forms_of
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import Place
from pipelines.exactly_once.offset_chain import Commit
from pipelines.model.pipeline import Latest, Mode, Placed, Sink, Unavailable
from pipelines.sinks.delta_tables import ensure_table
from pipelines.transforms.dataframes import stored
from pipelines.transforms.scd2 import history, versions
from pipelines.transforms.unavailable import conditions
from pipelines.transforms.upsert import latest_rows, upsert
from tests.spark.pipelines.test_upsert import _chain

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PLACE = Place(file="f", line=1, column=1)
SCHEMA = "k INT, pos INT, off INT, name STRING, bio STRING, tags ARRAY<STRING>, gone BOOLEAN"
SINK = Sink(
    name="s", place=PLACE, input="", path=None, table=None, keys=("k",), aggregates=(),
    mode=Mode.UPSERT,
    latest=Latest(
        columns=("pos", "off"), places=(PLACE, PLACE), marks=True,
        delete_when=Placed(text="gone", place=PLACE, path=""),
        unavailable=Unavailable.KEEP, placeholder=PLACEHOLDER,
    ),
)  # fmt: skip
KEPT = (4, 5)
"""The places of the columns that may be unavailable."""
LACKING = (PLACEHOLDER, [PLACEHOLDER])


def stream(rng, keys):
    """Changes as a connector sends them: in the order of their positions, parts of them again. A
    delete has its row's values, as with PostgreSQL's replica identity FULL."""
    changes = []
    for pos in range(6 * keys):
        bio = rng.choice([PLACEHOLDER, PLACEHOLDER, None, f"bio {pos}"])
        tags = rng.choice([[PLACEHOLDER], [PLACEHOLDER], None, [f"tag {pos}"]])
        gone = rng.random() < 0.2
        changes.append((rng.randrange(keys), pos, (f"n{pos}", bio, tags, gone)))
    for _ in range(2):
        start = rng.randrange(len(changes))
        changes[rng.randrange(start, len(changes)) :] += changes[start:]
    return [(k, pos, off, *row) for off, (k, pos, row) in enumerate(changes)]


def known(value, column):
    return value != LACKING[column - KEPT[0]]


def upserted(rows, *, marks):
    """The table of a sink that gets one row at a time."""
    table = {}
    for row in rows:
        there = table.get(row[0])
        if there is not None and row[1:3] < there[1:3]:
            continue
        if row[-1] and not marks:
            table.pop(row[0], None)
            continue
        kept = [
            v if i not in KEPT or known(v, i) else there and there[i] for i, v in enumerate(row)
        ]
        table[row[0]] = tuple(kept)
    return sorted(table.values())


def history_of(rows):
    """Each version with the values of the preceding versions of its key."""
    found, last = [], {}
    for row in sorted(rows, key=lambda row: row[:3]):
        there = last.get(row[0])
        kept = [
            v if i not in KEPT or known(v, i) else there and there[i] for i, v in enumerate(row)
        ]
        last[row[0]] = tuple(kept)
        found.append(tuple(kept))
    return found


def write(spark, path, sink, rows, cuts):
    reduced, merge = (versions, history) if sink.mode is Mode.SCD2 else (latest_rows, upsert)
    chain = _chain(spark, path)
    for number, (start, end) in enumerate(itertools.pairwise(cuts), 1):
        frame = reduced(spark.createDataFrame(rows[start:end], SCHEMA), sink)
        if chain.tip is None:
            ensure_table(spark, path, None, stored(frame).schema)
            chain.load()
        reached = TopicOffsets(ends={("t", 0): number})
        commit = Commit(start={("t", 0): number - 1}, end=reached, txn_version=number)
        chain.merge(frame, merge(sink, frame.schema), commit, number)
    table = spark.read.format("delta").load(path)
    assert not [name for name in table.columns if name.startswith("_josefine")]
    return sorted((tuple(row)[:7] for row in table.collect()), key=lambda row: row[:3])


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@pytest.mark.parametrize("kind", ["mark", "remove", "scd2"])
def test_kept_values_are_the_same_in_whatever_batches_the_changes_come(spark, tmp_path, kind):
    """Each key is cut at other places of its history, so that one table is many cases."""
    rng = Random(35)
    rows = stream(rng, 25)
    marks = kind != "remove"
    sink = replace(SINK, latest=replace(SINK.latest, marks=marks))
    expected = upserted(rows, marks=marks)
    if kind == "scd2":
        sink, expected = replace(sink, mode=Mode.SCD2), history_of(rows)

    cuts = (0, *sorted(rng.sample(range(1, len(rows)), 2)), len(rows))
    found = write(spark, str(tmp_path / "t"), sink, rows, cuts)

    assert found == sorted(expected, key=lambda row: row[:3])


TEXT = PLACEHOLDER
FORMS = forms_of(PLACEHOLDER)
TYPES = {
    "STRING": [*FORMS.texts],
    "BINARY": [bytearray(FORMS.data)],
    "ARRAY<STRING>": [[each] for each in FORMS.elements],
    "ARRAY<BINARY>": [[bytearray(FORMS.data)]],
    "ARRAY<INT>": [[*FORMS.numbers]],
    "ARRAY<DOUBLE>": [[float(each) for each in FORMS.numbers]],
    "MAP<STRING, STRING>": [{TEXT: TEXT}],
}
OTHERS = {
    "STRING": ["", f"{TEXT} ", None],
    "ARRAY<STRING>": [[], [TEXT, TEXT], [None], None],
    "ARRAY<INT>": [[], [95], None],
    "MAP<STRING, STRING>": [{}, {TEXT: "x"}, {TEXT: TEXT, "y": ""}, None],
    "ARRAY<DECIMAL(2,2)>": [None],
    "INT": [1],
    "STRUCT<a: STRING>": [(TEXT,)],
}


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_placeholder_is_found_in_its_form_of_each_type_and_nothing_else_is(spark):
    java = spark._jvm.java.util.UUID.nameUUIDFromBytes(bytearray(FORMS.data))
    assert FORMS.elements == (TEXT, java.toString())

    for expected, values in ((True, TYPES), (False, OTHERS)):
        for kind, each in values.items():
            frame = spark.createDataFrame(
                [(n, value) for n, value in enumerate(each)], f"n INT, c {kind}"
            )
            found = dict(conditions(frame.schema, PLACEHOLDER, ["n"]))
            condition = found.get("c", "false")
            assert [row[0] for row in frame.selectExpr(condition).collect()] == [expected] * len(
                each
            )
