"""Every pipeline that ships is good by lint and by the schema of editors, and has tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.inspect.graph import as_mermaid, graph_of
from pipelines.lint.lint import lint_file
from tests.unit.pipelines.config.test_json_schema import complaints

SHIPPED = sorted(Path("conf/pipelines").glob("*.yaml"))
MANUAL = Path("docs/reference/pipelines/index.md").read_text(encoding="utf-8")
PAGES = Path("docs/examples")


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


def test_each_shipped_pipeline_has_a_page_and_the_index_has_all_of_them():
    index = Path("docs/examples.md").read_text(encoding="utf-8")
    names = [file.stem for file in SHIPPED]

    assert sorted(page.stem for page in PAGES.glob("*.md")) == names
    for name in names:
        assert f"| [{name}](examples/{name}.md) | `conf/pipelines/{name}.yaml` |" in index


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_the_page_of_a_shipped_pipeline_draws_it_and_makes_its_topics(file):
    """The drawing is what `josefine pipeline graph FILE --mermaid` prints, with paths as in the
    file."""
    page = (PAGES / f"{file.stem}.md").read_text(encoding="utf-8")
    pipeline = lint_file(file, {}).pipeline
    topics = [topic for each in pipeline.sources.values() for topic in each.topics]
    topics += [sink.topic.topic for sink in pipeline.sinks.values() if sink.topic]

    drawn = page.partition("```mermaid\n")[2].partition("```")[0]
    assert drawn == as_mermaid(graph_of(pipeline)).replace(f"{Path.cwd()}/", "")
    for topic in topics:
        assert f"\njosefine topics create {topic}\n" in page
    assert f"josefine pipeline run conf/pipelines/{file.name}" in page
