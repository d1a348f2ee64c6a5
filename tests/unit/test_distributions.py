"""The table of distributions: every file of ours has one owner, every requirement is declared."""

import ast
import sys
import tomllib
from collections import Counter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from conf.distributions.build import BuildFailed, files, requirement
from conf.distributions.table import DISTRIBUTIONS, Distribution
from tests.unit.test_style import ROOT, SOURCES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = {
    "josefine-client": {"cryptography", "protobuf", "pyarrow", "numba", "numpy", "llvmlite"},
    "josefine": {
        "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http", "opentelemetry-api",
        "confluent-kafka", "pyspark", "py4j", "pyarrow", "deltalake",
    },
    "josefine-spark": {"pyspark", "py4j", "deltalake"},
    "josefine-journal": set(),
    "josefine-lake": {"protobuf", "duckdb"},
    "josefine-pipelines": {"pyspark", "py4j", "delta-spark", "pyiceberg", "protobuf"},
}  # fmt: skip
"""Distribution → packages that its modules import and that it works without."""


def test_every_source_belongs_to_exactly_one_distribution() -> None:
    owners = Counter(path for each in DISTRIBUTIONS for path in files(each, ROOT))

    assert [str(path) for path, count in owners.items() if count > 1] == []
    assert {path.relative_to(ROOT) for path in SOURCES} - set(owners) == set()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda each: each.name)
def test_a_distribution_declares_every_package_that_it_imports(distribution: Distribution) -> None:
    known = {each.name: each for each in DISTRIBUTIONS}
    required: set[str] = set()
    waiting = [distribution.name]
    while waiting:
        name, _, extra = waiting.pop().rstrip("]").partition("[")
        each = known[name]
        waiting += each.ours
        required |= {*each.needs, *(each.extras[extra] if extra else ())}
    declared = {name.lower() for name in required} | OPTIONAL[distribution.name]

    imported = {name for path in files(distribution, ROOT) for name in imports(ROOT / path)}

    assert {name for name in imported if not names_of(name) & declared} == set()


def imports(path: Path) -> set[str]:
    """The top-level packages of others that a module imports."""
    if path.suffix != ".py":
        return set()
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    ours = {name for name in found if name.startswith(("josefine", "pyspark_josefine"))}
    return found - ours - {"raft", "pipelines"} - set(sys.stdlib_module_names)


NAMES = packages_distributions()


def names_of(package: str) -> set[str]:
    """The distributions of others that have a package."""
    return {name.lower().replace("_", "-") for name in NAMES.get(package, ())}


def test_the_connector_requires_neither_spark_nor_the_parts_of_a_broker() -> None:
    known = {each.name: each for each in DISTRIBUTIONS}
    connector, client = known["josefine-spark"], known["josefine-client"]

    assert connector.needs == ()
    assert connector.ours == ("josefine-client[arrow]",)
    assert client.needs == ("kio", "cramjam", "crc32c")
    assert client.extras["arrow"] == ("pyarrow", "numba", "numpy")
    assert client.ours == ()


def test_a_requirement_has_the_bounds_of_the_project_and_ours_its_version() -> None:
    version = PROJECT["version"]

    assert requirement("pydantic", PROJECT) == "pydantic>=2.9,<3"
    assert requirement("josefine-client[arrow]", PROJECT) == f"josefine-client[arrow]=={version}"
    with pytest.raises(BuildFailed, match=r"pyproject\.toml does not require 'nothing'"):
        requirement("nothing", PROJECT)
