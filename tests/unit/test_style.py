"""The style rules that a machine can check, over every source file (ARCHITECTURE.md).

Each file is read and walked once, by all its rules together; each rule is one test, whose message
names every place that breaks it as `file:line: what`.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "raft", "josefine_broker", "josefine_arrow", "josefine_spark", "josefine_journal",
    "josefine_cli", "josefine_lake", "pyspark_josefine", "pipelines",
)  # fmt: skip
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TEST_FILES = sorted(
    path for path in (ROOT / "tests").rglob("*.py") if "bench" not in path.relative_to(ROOT).parts
)

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
TEST_FILE_LINES_MAX = 600

DEFINITIONS_MAX = {"broker": 4, "cluster": 1, "run": 2, "world": 2}
"""How many test files may define each shared name. These limits only shrink: a new test takes the
fixture of its folder, one of tests/support/fixtures.py, or gives its own a name that says what
differs."""

BROAD_EXCEPT_ALLOWED = {
    "josefine_broker/host/net/connection.py",
    "josefine_broker/host/net/produce_turn.py",  # its part for requests served together
    "josefine_broker/host/net/late_answers.py",  # and for those that wait for replicas
    "josefine_broker/host/net/dispatch.py",  # the connection loop's part that calls handlers
    "josefine_broker/host/net/text_connection.py",
    "josefine_broker/host/ticker.py",  # supervises the periodic duties
    "josefine_lake/writer/process.py",  # a thread that ended would keep its table's lease
    "josefine_cli/pipeline/dev.py",  # no error of a round ends the loop
    "josefine_cli/pipeline/secrets.py",  # takes secrets out of whatever Spark raised
    # Spark and py4j raise whatever a user's code, a file system or the JVM raised.
    "pipelines/run/batch_commit.py",
    "pipelines/run/multi_run.py",
    "pipelines/sinks/commits.py",
    "pipelines/transforms/python_function.py",
    "pipelines/journal/spark_replicator.py",
    "pipelines/journal/spark_rounds.py",
    "pipelines/spark/jvm.py",
    "pipelines/sinks/delta_maintenance.py",
    "pipelines/exactly_once/verdict_messages.py",
    "pipelines/report/metrics.py",
    "pipelines/report/throughput.py",
    "pipelines/report/progress_table.py",
    "pipelines/run/run.py",
    "pipelines/run/sink_handle.py",
    "pipelines/run/session.py",
    "pipelines/sinks/iceberg/catalog.py",  # a catalog raises what HTTP or a database does
    "pipelines/sinks/iceberg/chain.py",
}
"""`except Exception` belongs to the connection loop and the supervisors of other people's code."""

SLEEP_ALLOWED = {
    "tests/support/chromium.py",
    "tests/support/hostile_store.py",  # a slow answer is its fault
    "tests/support/waiting.py",
}

Found = tuple[str, int, str]
"""(rule, line, what is wrong)."""


def test_file_opens_with_its_one_job() -> None:
    assert broken("opens with its job") == []


def test_files_are_short() -> None:
    assert broken("file length") == []


def test_functions_are_short() -> None:
    assert broken("function length") == []


def test_public_definitions_have_docstrings() -> None:
    assert broken("docstring") == []


def test_exceptions_are_caught_by_name() -> None:
    assert broken("broad except", but_in=BROAD_EXCEPT_ALLOWED) == []


def test_tests_wait_for_conditions_and_never_sleep() -> None:
    assert broken("sleep", but_in=SLEEP_ALLOWED) == []


def test_test_files_are_short() -> None:
    assert broken("test file length") == []


def test_shared_names_are_defined_at_most_as_often_as_their_limit() -> None:
    found = definitions(path.read_text() for path in TEST_FILES)

    assert {n: count for n, count in found.items() if count > DEFINITIONS_MAX[n]} == {}


def test_definitions_are_counted_at_the_top_of_a_file() -> None:
    nested = "class A:\n    def run(self): ...\n"

    assert definitions(["def run(): ...\n", "async def run(): ...\n" + nested]) == {
        "broker": 0, "cluster": 0, "run": 2, "world": 0,
    }  # fmt: skip


def test_every_rule_finds_what_breaks_it() -> None:
    text = (
        "def long():\n" + "    x = 1\n" * FUNCTION_LINES_MAX + "try:\n    pass\nexcept:\n    pass\n"
    )
    broad = "try:\n    pass\nexcept Exception:\n    pass\n"

    assert {rule for rule, _, _ in rules_of_sources(text + broad + "#\n" * FILE_LINES_MAX)} == {
        "opens with its job", "file length", "function length", "docstring", "broad except",
    }  # fmt: skip
    assert list(rules_of_tests("import time\ntime.sleep(1)\n")) == [
        ("sleep", 2, "waits for time and not for a condition")
    ]
    assert list(rules_of_tests("#\n" * TEST_FILE_LINES_MAX)) == []
    assert list(rules_of_tests("#\n" * (TEST_FILE_LINES_MAX + 1))) == [
        ("test file length", 601, "601 lines, at most 600")
    ]


def broken(rule: str, but_in: set[str] | frozenset[str] = frozenset()) -> list[str]:
    """Where a rule is broken, as `file:line: what`."""
    return [
        f"{name}:{line}: {what}"
        for name, (kind, line, what) in everything_found()
        if kind == rule and name not in but_in
    ]


@cache
def everything_found() -> list[tuple[str, Found]]:
    """What every rule has against every file, found in one pass."""
    assert SOURCES
    assert TEST_FILES
    kinds = ((SOURCES, rules_of_sources), (TEST_FILES, rules_of_tests))
    return [
        (path.relative_to(ROOT).as_posix(), each)
        for paths, rules in kinds
        for path in paths
        for each in rules(path.read_text())
    ]


def rules_of_sources(text: str) -> Iterator[Found]:
    """What is wrong with a file of the product."""
    tree = ast.parse(text)
    if not ast.get_docstring(tree):
        yield "opens with its job", 1, "a file opens with a docstring that says its job"
    if (lines := text.count("\n")) > FILE_LINES_MAX:
        yield "file length", lines, f"{lines} lines, at most {FILE_LINES_MAX}"
    for node in tree.body:
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ):
            yield "docstring", node.lineno, f"{node.name} is public and has no docstring"
    for child in ast.walk(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            assert child.end_lineno is not None
            length = child.end_lineno - child.lineno + 1
            if length > FUNCTION_LINES_MAX:
                what = f"{child.name} has {length} lines, at most {FUNCTION_LINES_MAX}"
                yield "function length", child.lineno, what
        elif isinstance(child, ast.ExceptHandler) and is_broad(child):
            yield "broad except", child.lineno, "an exception is caught by its name"


def rules_of_tests(text: str) -> Iterator[Found]:
    """What is wrong with a file of tests."""
    if (lines := text.count("\n")) > TEST_FILE_LINES_MAX:
        yield "test file length", lines, f"{lines} lines, at most {TEST_FILE_LINES_MAX}"
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "sleep"
        ):
            yield "sleep", node.lineno, "waits for time and not for a condition"


def definitions(texts: Iterable[str]) -> dict[str, int]:
    """How often each shared name is defined at the top of a file of tests."""
    pattern = re.compile(rf"^(?:async )?def ({'|'.join(DEFINITIONS_MAX)})\(", re.MULTILINE)
    found = Counter(name for text in texts for name in pattern.findall(text))
    return {name: found[name] for name in DEFINITIONS_MAX}


def is_broad(handler: ast.ExceptHandler) -> bool:
    """`except:` or `except Exception:`."""
    caught = handler.type
    return caught is None or (isinstance(caught, ast.Name) and caught.id == "Exception")
