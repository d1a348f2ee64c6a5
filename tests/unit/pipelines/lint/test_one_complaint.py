"""One fault in a valid file is one complaint, at the fault's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.base.variables import Variables
from pipelines.config.example import EXAMPLE
from pipelines.config.validate import examine
from pipelines.lint.lint import lint_text
from tests.unit.pipelines.lint.single_faults import (
    keywords_of,
    left_out,
    misspellings,
    misspelt,
    misspelt_names,
    of_wrong_type,
)

FOLDER = Path("conf/pipelines")
FILES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))}
FILES |= {"example": EXAMPLE.read_text(encoding="utf-8")}


def complaints(text):
    return lint_text(text, str(FOLDER / "f.yaml"), {})


def faults(text):
    for use in keywords_of(text):
        # Half of the slips for each use of a keyword, the other half for the next one.
        for slip in misspellings(use.key.value)[use.key.start_mark.line % 2 :: 2]:
            yield misspelt(text, use, slip)
        yield of_wrong_type(text, use)
        yield left_out(text, use)
    yield from misspelt_names(text)


@pytest.mark.parametrize("name", FILES)
def test_one_fault_is_one_complaint_at_its_place(name):
    text, wrong = FILES[name], []
    assert complaints(text).problems == []
    for fault in filter(None, faults(text)):
        found = complaints(fault.text).problems
        places = [(each.place.line, each.place.column) for each in found]
        if len(places) != 1 or places[0] not in fault.places:
            wrong.append("\n   ".join([f"{fault.what} {fault.places}", *map(str, found)]))

    assert wrong == []


def told(text, old, new):
    assert old in text
    problems = complaints(text.replace(old, new, 1)).problems
    return [str(each).partition("f.yaml:")[2] for each in problems]


def test_a_misspelt_definition_with_several_uses_is_reported_where_it_is():
    text = FILES["flights"].replace(
        "  flights:\n    inputs: [events]", "  flihgts:\n    inputs: [events]"
    )

    assert told(text, "version", "version") == [
        "31:3: transforms.flihgts: no input is `flihgts`, but 2 are `flights`: did you mean "
        "`flights`?"
    ]


def test_a_variable_without_a_value_is_reported_at_its_first_use():
    assert [
        line[:31] for line in told(FILES["example"], "  lake: ${LAKE:-data/lake}", "  a: b")
    ] == [
        "21:15: spark.checkpoint: ${lake",
    ]


def test_a_keyword_that_this_type_refuses_is_not_what_was_meant():
    """`keys` is for other modes: an append sink that is corrected to it would be wrong again."""
    (line,) = told(FILES["example"], "    mode: append\n", "    mode: append\n    keyz: [id]\n")

    assert line.startswith("61:5: sinks.orders.keyz: unknown key `keyz`; expected one of: type,")


def test_two_faults_are_two_complaints():
    text = FILES["example"].replace("    mode: append\n", "    mode: apend\n", 1)

    assert [line.partition(": ")[2][:25] for line in told(text, "sinks:", "sinkz:")] == [
        "sinkz: unknown key `sinkz",
        "sinks.orders.mode: expect",
    ]


def test_a_slip_in_an_environment_stops_only_the_runs_there():
    text = FILES["example"].replace("    trigger: { every: 5s }", "    triger: { every: 5s }")

    here, there = (lint_text(text, "f.yaml", {}, each).problems for each in (None, "prod"))

    assert [str(each.place) for each in here] == [str(each.place) for each in there]
    assert examine(text, "f.yaml", Variables(env={})).problems == []
