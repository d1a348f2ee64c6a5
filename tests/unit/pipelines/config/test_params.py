"""Parameters in a pipeline: each SQL text has the values of those that it names, no others."""

from __future__ import annotations

from pipelines.base.errors import Place
from pipelines.base.variables import Variables
from pipelines.config.params import with_params
from pipelines.config.validate import examine
from pipelines.model.pipeline import Parameter
from tests.unit.pipelines.config.test_validate import GOOD

AT = Place(file="f.yaml", line=1, column=1)


def test_a_text_has_only_the_values_that_it_names():
    text = GOOD.replace("select value.* from raw", "\"select :a as a, ':b' as b from raw\"")
    pipeline = examine(text, "f.yaml", Variables(env={})).pipeline
    params = {name: Parameter(value=name, place=AT, path=f"params.{name}") for name in "ab"}

    said = with_params(pipeline, params).transforms["clean"].said

    assert (said.params, said.bound) == ((("a", "a"),), "select 'a' as a, ':b' as b from raw")
