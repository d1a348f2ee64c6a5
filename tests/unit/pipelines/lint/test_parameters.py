"""Parameters of SQL in a file: values by name, and what lint reports of them."""

from __future__ import annotations

import pytest

from pipelines.base.variables import Variables
from pipelines.config.validate import examine
from pipelines.exactly_once.decode_fingerprint import judgement
from pipelines.lint.lint import lint_text
from pipelines.lint.parameters import parameter_problems
from pipelines.model.plan import compile_plan
from tests.unit.pipelines.config.bad_sinks import SINK, UPSERT
from tests.unit.pipelines.config.test_validate import GOOD, complaint

SELECT = "select value.* from raw"


def file(sql, params="", sink=SINK):
    said = f'"{sql}"' if '"' not in sql else sql
    text = GOOD.replace(f"sql: {SELECT}", f"sql: {said}").replace(SINK, sink)
    return text + (f"params: {params}\n" if params else "")


def told(text, env=None):
    problems = lint_text(text, "f.yaml", env or {}).problems
    return [str(each).removeprefix("f.yaml:") for each in problems]


def test_a_parameter_has_the_value_of_its_environment():
    text = file(f"{SELECT} where value.id > :least", '{ least: "${LEAST:-5}" }')
    text += "environments: { prod: { params: { least: 7 } } }\n"

    here, there = (
        examine(text, "f.yaml", Variables(env={}), each).pipeline.transforms["clean"].said
        for each in (None, "prod")
    )

    assert told(text) == []
    assert (here.params, there.params) == ((("least", 5),), (("least", 7),))
    assert here.bound == f"{SELECT} where value.id > (5)"


def test_every_sql_text_may_name_parameters():
    sink = UPSERT.replace("op = 'd'", "id = :gone").replace("[at, _offset]", "at")
    text = file("select value.*, timestamp as at from raw", "{ gone: 1, low: 2, name: x }", sink)
    text = text.replace(
        "    type: delta\n", "    type: delta\n    constraints: { c: 'id > :low' }\n", 1
    )
    text += 'checks: { c: { on: clean, expr: "topic = :name", action: warn } }\n'

    pipeline = examine(text, "f.yaml", Variables(env={})).pipeline

    assert list(parameter_problems(pipeline)) == []
    assert pipeline.checks["c"].expr.bound == "topic = 'x'"


@pytest.mark.parametrize(
    ("sql", "params", "problem"),
    [
        (f"{SELECT} where value.id > :leats", "{ least: 5 }",
         "12:74: transforms.clean.sql: no parameter `leats`; did you mean `least`?"),
        (f"{SELECT} where value.id > :other", "",
         "12:74: transforms.clean.sql: no parameter `other`: expected it below `params`"),
        (SELECT, "{ idle: 5 }",
         "16:11: params.idle: no SQL names it: expected `:idle` in a transform or a condition"),
    ],
)  # fmt: skip
def test_a_parameter_without_its_other_half_is_reported(sql, params, problem):
    assert told(file(sql, params))[:1] == [problem]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ("{ a: [1] }", "f.yaml:16:14: params.a: expected a text, a number or a flag; found a list"),
        ("{ a: null }", "f.yaml:16:14: params.a: expected a text, a number or a flag; found noth"),
        ("{ a: .inf }", "f.yaml:16:14: params.a: expected a finite number; found `.inf`"),
        ("{ a: 9223372036854775808 }", "f.yaml:16:14: params.a: expected a whole number of 64 bi"),
        ("{ A: 1 }", "f.yaml:16:11: params.A: `A` is not a name: expected a-z, 0-9 and _"),
        ('{ a: "${secret:env:S}" }', "f.yaml:16:14: params.a: a secret must not be a parameter"),
    ],
)
def test_a_parameter_is_one_value_that_may_be_seen(params, problem):
    assert complaint(file(SELECT, params), {"S": "x"}).startswith(problem)


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("value.id > ${MIN}", "`${MIN}` is pasted into the SQL as text; bind it as a parameter: "
         f"{SELECT} where value.id > :min with `params: {{ min: \"${{MIN}}\" }}`"),
        ("topic like '%${A:-x}%${B}'", "`${A:-x}` is pasted into the SQL as text; bind it as a "
         f"parameter: {SELECT} where topic like '%' || :a || '%' || :b with `params: {{ a: "
         '"${A:-x}" }`'),
    ],
)  # fmt: skip
def test_a_variable_in_sql_is_reported_with_the_line_rewritten(condition, problem):
    (found,) = told(file(f"{SELECT} where {condition}"), {"MIN": "1", "B": "b"})

    place, _, message = found.partition(": transforms.clean.sql: ")
    at = file(f"{SELECT} where {condition}").splitlines()[11].index("${") + 1
    assert (place, message) == (f"12:{at}", problem)


def test_a_variable_in_a_block_is_reported_in_its_line():
    text = file(SELECT).replace(
        f'{{ inputs: [raw], sql: "{SELECT}" }}',
        f"\n    inputs: [raw]\n    sql: |\n      {SELECT}\n      where topic = '${{T}}'",
    )

    (found,) = told(text, {"T": "t"})

    assert found.startswith("16:22: transforms.clean.sql: `${T}` is pasted into the SQL")
    assert "parameter: where topic = :t with" in found


@pytest.mark.parametrize("table", ["${T}", "a${T}"])
def test_a_variable_in_a_name_is_left_alone(table):
    sql = f"select value.id as id_{table} from raw -- ${{T}}"

    assert told(file(sql), {"T": "t"}) == []


def test_the_value_is_part_of_what_a_replay_compares():
    """A dead letter that another value would have let through is another verdict."""
    text = file(f"{SELECT} where value.id > :least", "{ least: 5 }").replace("fail", "dead_letter")
    text += "dead_letter: { type: delta, path: /dead }\n"
    text += "checks: { c: { on: raw, expr: value.id > :least, action: dead_letter } }\n"

    one, two = (
        judgement(compile_plan(examine(each, "f.yaml", Variables(env={})).pipeline).sources["raw"])
        for each in (text, text.replace("least: 5", "least: 6"))
    )

    assert one != two
