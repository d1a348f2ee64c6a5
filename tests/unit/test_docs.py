"""The documents are true: pages are current, named paths exist, every row has an answer."""

import re
import subprocess
from pathlib import Path

import pytest

from josefine_broker.api.table import SERVED
from josefine_spark.read.source_options import SOURCE_OPTIONS
from josefine_spark.write.sink_options import SINK_OPTIONS
from pipelines.base import failpoints
from pipelines.config.validate import read_pipeline
from tests import generate_docs
from tests.checklist import claimed_rows, rows
from tests.connector_rows import features, is_there, missing_tests
from tests.unit.test_language import WORDS, hits_of

ROOT = Path(__file__).resolve().parents[2]
BROKER = ROOT / "josefine_broker"
DOCUMENTS = (
    "README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "COMPATIBILITY.md", "CONTRIBUTING.md",
    "RELIABILITY.md",
    "raft/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)  # fmt: skip
INTERNAL_OPTIONS = ("checkpointLocation",)
"""Taken so that they can be refused or ignored with reason; nothing a user sets for us."""

OLD = ("raft/README.md", "docs/reference/pipelines/running.md", *generate_docs.PAGES)
"""Pages that still have words which the language guide drops, or quote messages that have them."""

CHANGELOG_GROUPS = ("Added", "Changed", "Fixed", "Performance", "Security")

PATH_WORD = re.compile(r"`((?:[a-z_]+/)+[a-zA-Z_.-]*\.?[a-z]*)(?:::(\w+))?`")
"""`a/file.py`, or `a/file.py::name` for what is defined there."""


@pytest.mark.parametrize("name", generate_docs.PAGES)
def test_generated_page_is_current(name: str) -> None:
    assert (ROOT / name).read_text() == generate_docs.PAGES[name](), "run ./build.sh docs"


def test_every_api_of_kafka_is_served_or_has_a_reason_once() -> None:
    """kio names the APIs as Kafka does."""
    kafkas = generate_docs.kafkas_apis()
    words = [word for row in generate_docs.NOT_SERVED for word in row.split(", ")]
    found = {
        name: list(generate_docs.reasons(name))
        for key, name in kafkas.items()
        if key not in SERVED or SERVED[key].spec.is_declined
    }

    assert {name: each for name, each in found.items() if len(each) != 1} == {}
    assert set(words) == {word for each in found.values() for word in each}


def test_page_of_compatibility_has_a_row_for_each_api_of_kafka() -> None:
    page = (ROOT / "COMPATIBILITY.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", page, re.MULTILINE)

    assert len(rows) == len(set(rows))
    assert {int(key): name for key, name in rows} == generate_docs.kafkas_apis()
    assert len(rows) > 85, "Kafka 4.3 has more"


def test_every_checklist_row_has_a_test_or_a_reason() -> None:
    silent = [row.number for row in rows() if not row.tests and row.reason is None]

    assert silent == []


def test_checklist_has_every_row_once() -> None:
    assert [row.number for row in rows()] == list(range(1, 97))


def test_claims_understand_lists_and_ranges() -> None:
    assert claimed_rows("Checklist rows 3, 5-7 and 9.") == [3, 5, 6, 7, 9]
    assert claimed_rows("Checklist row 20.") == [20]
    assert claimed_rows("nothing here") == []


def test_every_feature_of_the_connector_has_tests_that_are_there_or_a_reason() -> None:
    every = features()

    assert [row.number for row in every] == list(range(1, 67))
    assert {row.number: gone for row in every if (gone := missing_tests(row))} == {}
    silent = [row.number for row in every if not row.tests and not row.without.startswith("no: ")]
    assert silent == []
    both = [row.number for row in every if row.tests and row.without.startswith("no: ")]
    assert both == []


def test_a_feature_is_a_line_with_its_tests_below_it() -> None:
    (row,) = features("7. it flies\n  tests/unit/test_docs.py::test_it_flies\n  not: far. Why")

    assert (row.number, row.statement, row.without) == (7, "it flies", "not: far. Why")
    assert missing_tests(row) == ["tests/unit/test_docs.py::test_it_flies"]
    assert not is_there("tests/unit/nowhere.py::test_it_flies")
    for line in ("it flies", "  no reason", "1. a\n  tests/unit/test_docs.py"):
        with pytest.raises(ValueError, match="no row of features"):
            features(line)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths_and_names_in_documents_exist(name: str) -> None:
    assert stale((ROOT / name).read_text()) == []


def test_a_stale_path_or_name_is_found() -> None:
    there = ("raft/node.py", "raft/node.py::Node", "engine/metadata/image.py", "other/x.py")
    gone = ["raft/nod.py", "raft/node.py::Nod", "engine/imag.py"]

    assert stale(" ".join(f"`{word}`" for word in (*there, *gone))) == gone


def stale(text: str) -> list[str]:
    """Paths below our folders, or the broker's, that are not there, and names that their file does
    not define."""
    found = []
    for path, name in PATH_WORD.findall(text):
        first = path.split("/")[0]
        within = next((each for each in (ROOT, BROKER) if (each / first).exists()), None)
        if within is None:
            continue
        definition = re.compile(rf"^\s*(?:async def|def|class) {name}\b|^{name}\b", re.MULTILINE)
        if not (within / path).exists():
            found.append(path)
        elif name and not definition.search((within / path).read_text()):
            found.append(f"{path}::{name}")
    return found


def test_committed_files_name_no_machine_and_no_registry() -> None:
    forbidden = (
        "/".join(("", "work", "main")),
        "/".join(("", "work", "shared")),
        ".".join(("pypi", "org")),
    )
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")

    guilty = [
        name
        for name in tracked
        if name and (ROOT / name).is_file() and _mentions((ROOT / name).read_bytes(), forbidden)
    ]

    assert guilty == []


def _mentions(content: bytes, words: tuple[str, ...]) -> bool:
    return any(word.encode() in content for word in words)


def test_pipeline_in_the_readme_is_a_good_pipeline(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    file = tmp_path / "orders.yaml"
    file.write_text(text.partition("```yaml\n")[2].partition("```")[0])

    assert read_pipeline(file, {}).name == "orders_to_lake"


def test_every_option_and_failpoint_is_documented() -> None:
    manual = ROOT / "docs/reference"
    spark, pipelines = (manual / name for name in ("spark.md", "pipelines/exactly-once.md"))

    missing = [word for word in (*SOURCE_OPTIONS, *SINK_OPTIONS) if word not in spark.read_text()]
    missing += [name for name in failpoints.NAMES if name not in pipelines.read_text()]

    assert [word for word in missing if word not in INTERNAL_OPTIONS] == []


def test_architecture_is_short_enough_to_be_read() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()

    assert len(lines) <= 250, "move reasons to docs/decisions/, figures to BENCHMARKS.md"
    assert [line for line in lines if len(line) > 161] == []


def test_architecture_has_an_index_of_every_decision() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    indexed = dict(
        re.findall(r"^\| \[[\w-]+\]\((docs/decisions/[\w-]+\.md)\) \| (.+) \|$", text, re.M)
    )
    there = {
        f"docs/decisions/{path.name}": path.read_text().partition("\n")[0].split(" ", 2)[2]
        for path in (ROOT / "docs/decisions").glob("0*.md")
    }

    assert indexed == there


def test_a_decision_has_its_context_and_what_follows_from_it() -> None:
    for path in (ROOT / "docs/decisions").glob("0*.md"):
        sections = re.findall(r"^## (.+)$", path.read_text(), re.MULTILINE)
        assert {"Context", "Decisions", "Consequences"} <= set(sections), path.name


def test_page_of_benchmarks_has_every_bench() -> None:
    notes = (ROOT / "docs/benchmarks/notes.md").read_text()
    named = set(re.findall(r"^### (\w+)$", notes, re.MULTILINE))
    without = set(re.findall(r"`(\w+)` \(", notes.partition("### Without figures here")[2]))
    benches = {
        path.stem.removesuffix("_bench") for path in (ROOT / "tests/bench").glob("*_bench.py")
    }

    assert benches - named - {"all"} == without
    assert named <= benches


def test_every_page_for_readers_leads_to_the_glossary() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        assert "docs/reference/glossary.md" in (ROOT / name).read_text(), name


def test_guide_lists_every_word_that_the_language_test_drops() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Language\n")[2]
    table = "\n".join(re.findall(r"^\| .+ \|$", guide.partition("\n## ")[0], re.MULTILINE))

    assert [each for each in WORDS if not re.search(each, table, re.IGNORECASE)] == []


def test_changelog_is_grouped_for_users_one_line_each() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    versions = [line for line in lines if line.startswith("## ")]
    groups = {line for line in lines if line.startswith("### ")}
    entries = lines[lines.index(versions[0]) :]

    assert versions[0] == "## Unreleased"
    assert versions[1:] == sorted(versions[1:], reverse=True)
    assert groups <= {f"### {each}" for each in CHANGELOG_GROUPS}
    assert [line for line in entries if line and not line.startswith(("## ", "### ", "- "))] == []
    assert [line for line in entries if len(line) > 200] == []


@pytest.mark.parametrize("name", [each for each in (*DOCUMENTS, "CHANGELOG.md") if each not in OLD])
def test_page_uses_the_words_of_the_guide(name: str) -> None:
    text = (ROOT / name).read_text()
    if name == "CONTRIBUTING.md":  # lists the words that it drops
        text = re.sub(r"^\| .+ \|$", "", text, flags=re.MULTILINE)

    assert list(hits_of(text)) == []
