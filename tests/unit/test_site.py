"""The site's sources: each page is in the navigation, links lead somewhere, examples are good.

`./build.sh docs site` builds it in strict mode; what can be seen without MkDocs is here, daily.
"""

import re
from pathlib import Path

import pytest

from pipelines.lint.lint import lint_file
from tests.pages import errors, kafka_errors, keywords, verdicts
from tests.pages.blocks import ROOT, Step, files, missing, steps, with_files
from tests.pages.links import COPIED, DOCS, anchors, broken, is_there, links
from tests.unit.pipelines.config.test_json_schema import complaints

PARTS = {DOCS / "benchmarks/notes.md"}
"""Not pages: another page has their text."""

PAGES = sorted({*DOCS.rglob("*.md")} - PARTS)
EXAMPLES = sorted((DOCS / "examples").glob("*.yaml"))
MKDOCS = (ROOT / "mkdocs.yml").read_text()
NAV = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", MKDOCS.partition("\nnav:\n")[2], re.MULTILINE)


def test_each_page_is_in_the_navigation_once() -> None:
    there = {page.relative_to(DOCS).as_posix() for page in PAGES} | set(COPIED)

    assert len(NAV) == len(set(NAV))
    assert set(NAV) == there


def test_site_copies_the_pages_that_links_may_name() -> None:
    hooks = (DOCS / "site_hooks.py").read_text()

    assert dict(re.findall(r'^    "(\w+\.md)": "(\S+)",$', hooks, re.MULTILINE)) == {
        name: page for page, name in COPIED.items()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_of_a_page_lead_to_a_page_and_a_heading(page: Path) -> None:
    assert broken(page) == []


PICTURE_BYTES_MAX = 150_000


def pictures(text: str) -> list[tuple[str, str]]:
    """(dark, light) of each picture of a page."""
    return re.findall(
        r'<picture><source [^>]*srcset="([^"]+)"><img alt="[^"]+" src="([^"]+)">', text
    )


def test_pictures_of_pages_are_there_in_both_schemes_small_and_shown() -> None:
    shown: set[Path] = set()
    for page in PAGES:
        for dark, light in pictures(page.read_text()):
            assert dark == light.replace("-light.", "-dark."), page
            shown |= {(page.parent / each).resolve() for each in (dark, light)}

    assert shown == {*(DOCS / "assets").glob("*.png")}
    sizes = {each.name: each.stat().st_size for each in shown}
    assert {name: size for name, size in sizes.items() if size > PICTURE_BYTES_MAX} == {}


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = DOCS / "how-to/upsert.md"
    text = (
        "[a](index.md) [b](../reference/errors.md#verdicts-of-pipelines) `[c](d.md)` [e](https://x)"
    )

    assert list(links(text)) == ["index.md", "../reference/errors.md#verdicts-of-pipelines"]
    assert [is_there(page, link) for link in links(text)] == [True, True]
    assert not is_there(page, "gone.md")
    assert not is_there(page, "../reference/errors.md#gone")
    assert anchors("# A `b` c\n```\n# no\n```\n## Twice\n## Twice\n") == {
        "a-b-c",
        "twice",
        "twice_1",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_file_that_a_page_shows_is_shown_as_it_is(page: Path) -> None:
    text = page.read_text()

    assert with_files(text) == text, "run ./build.sh docs pages"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_good_tests_its_sinks_and_is_shown(file: Path) -> None:
    examined = lint_file(file, {})
    pipeline = examined.pipeline
    shown = {name for page in PAGES for name in files(page.read_text())}

    assert examined.problems == []
    assert complaints(file.read_text()) == []
    assert set(pipeline.sinks) <= {each.node for case in pipeline.cases for each in case.expected}
    assert file.relative_to(ROOT).as_posix() in shown


def test_a_guide_is_two_screens_without_its_files() -> None:
    """Those from before the site are longer; they are the manuals of their subject."""
    long = {}
    for page in (DOCS / "how-to").glob("*.md"):
        text = re.sub(r"<!-- file: .*?^```$", "", page.read_text(), flags=re.M | re.S)
        if page.name not in ("cluster.md", "security.md") and len(text.splitlines()) > 90:
            long[page.name] = len(text.splitlines())

    assert long == {}


def test_a_step_is_a_block_of_commands_with_the_lines_it_prints() -> None:
    text = "```sh\nls\n```\n\n```text\na … c\nb\n```\n\n```sh\ntrue\n```\n\n```bash\nno\n```\n"

    assert list(steps(text)) == [Step("ls\n", ("a … c", "b")), Step("true\n", ())]
    assert missing(Step("", ("a … c", "b")), "a 1 c\nx\n") == ["b"]
    assert missing(Step("", ("a … c",)), "xa c\n") == ["a … c"]


def test_each_verdict_and_error_code_has_a_cause_and_every_cause_a_place_in_the_code() -> None:
    page = errors.page()

    assert all(advice.cause and advice.fix for advice in verdicts.VERDICTS.values())
    assert all(verdict.value.replace("|", "\\|") in page for verdict in verdicts.VERDICTS)
    assert {cause for cause, _ in kafka_errors.CAUSES.values()} <= set(page.split(" | "))


def test_each_section_of_a_pipeline_file_has_its_place() -> None:
    text = keywords.page()
    linked = set(re.findall(r"\(#([\w-]+)\)", text))

    assert linked <= anchors(text)
    assert "In ``" not in text
