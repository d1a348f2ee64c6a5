"""Every pipeline that ships is good by lint and by the schema of editors, and has tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.lint import lint_file
from tests.unit.pipelines.test_json_schema import complaints

SHIPPED = sorted(Path("conf/pipelines").glob("*.yaml"))
MANUAL = Path("docs/pipelines.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_pipeline_is_good_and_the_manual_names_it(file):
    examined = lint_file(file, {})

    assert examined.problems == []
    assert complaints(file.read_text(encoding="utf-8")) == []
    assert f"`conf/pipelines/{file.name}`" in MANUAL


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_pipeline_tests_each_of_its_sinks(file):
    pipeline = lint_file(file, {}).pipeline
    expected = {each.node for case in pipeline.cases for each in case.expected}

    assert set(pipeline.sinks) <= expected
