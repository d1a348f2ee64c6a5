"""Command-line options of a run: names that the file has, and sinks that can run alone."""

from __future__ import annotations

import pytest

from pipelines.base.errors import WrongUsageError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.model.pipeline import Pipeline
from pipelines.run.options import NO_WISHES, Wishes, wishes

FILE = """\
version: 1
name: many
spark: { checkpoint: /ck }
sources:
  raw: { type: josefine, bootstrap: "a:1", topics: [t], decode: { value: { format: string,
    on_error: ON_ERROR } } }
  more: { type: josefine, bootstrap: "a:1", topics: [u] }
sinks:
  one: { type: delta, inputs: [raw], path: /one, mode: append }
  two: { type: delta, inputs: [raw], path: /two, mode: append }
  three: { type: delta, inputs: [more], path: /three, mode: append }
DEAD
trigger: { available_now: true }
"""


def pipeline_of(on_error: str) -> Pipeline:
    dead = "dead_letter: { type: delta, path: /dead }" if on_error == "dead_letter" else ""
    text = FILE.replace("ON_ERROR", on_error).replace("DEAD", dead)
    return validate(load(text, "f.yaml", {}))


def only(pipeline: Pipeline, *names: str) -> Wishes:
    return wishes(pipeline, Trust.NEITHER, (), (), False, names)


def test_only_the_named_sinks_run_in_the_order_of_the_file() -> None:
    pipeline = pipeline_of("fail")

    assert only(pipeline, "three", "one").sinks_of(pipeline) == ["one", "three"]
    assert NO_WISHES.sinks_of(pipeline) == ["one", "two", "three"]


def test_a_sink_without_the_one_that_settles_its_dead_letters_is_refused() -> None:
    pipeline = pipeline_of("dead_letter")

    with pytest.raises(WrongUsageError) as refused:
        only(pipeline, "two")
    assert str(refused.value) == (
        "--sink two: sink `one` settles the dead letters of source `raw`: give --sink one, too"
    )
    assert only(pipeline, "two", "one").sinks_of(pipeline) == ["one", "two"]
    assert only(pipeline, "three").sinks_of(pipeline) == ["three"]
    assert only(pipeline, "one").sinks_of(pipeline) == ["one"]


def test_an_unknown_sink_names_the_nearest_one() -> None:
    with pytest.raises(WrongUsageError, match=r"--sink thre: the file has no `thre`.*`three`"):
        only(pipeline_of("fail"), "thre")
