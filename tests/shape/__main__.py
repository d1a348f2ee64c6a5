"""Measures the product's shape and compares it with the recorded limits: `./build.sh lint --shape`.

Without arguments nothing is printed but what is beyond its limit.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence

import grimp

from tests.shape import limits
from tests.shape.marks import Mark, Product, StalePath, large_classes, marks
from tests.shape.sources import facts_of
from tests.unit.test_style import FILE_LINES_MAX, PACKAGES, ROOT, SOURCES


def main(arguments: Sequence[str]) -> int:
    """Exit code: 1 when a mark is beyond its limit or a path is stale."""
    parser = argparse.ArgumentParser(prog="./build.sh lint --shape", description=__doc__)
    parser.add_argument("--table", action="store_true", help="print every mark")
    parser.add_argument("--list", action="store_true", help="print what each mark counts, too")
    parser.add_argument("--tighten", action="store_true", help="record every mark that got better")
    options = parser.parse_args(arguments)
    product = measured_product()
    try:
        found = marks(product, FILE_LINES_MAX)
    except StalePath as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    large = large_classes(product.facts)
    if options.tighten:
        limits.write(limits.tightened(found, large, limits.read()))
    recorded = limits.read()
    if options.table or options.list:
        print_table(found, recorded, with_lists=options.list)
    failures = limits.broken(found, large, recorded)
    for each in failures:
        print(f"error: {each}", file=sys.stderr)
    return 1 if failures else 0


def measured_product() -> Product:
    """The product and its unit tests, as they are in this tree."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return Product(
        facts={path.relative_to(ROOT).as_posix(): facts_of(path.read_text()) for path in SOURCES},
        arrows={
            module: frozenset(graph.find_modules_directly_imported_by(module))
            for module in graph.modules
        },
        contracts=contracts["contracts"],
        unit_tests={
            path.relative_to(ROOT).as_posix(): path.read_text()
            for path in sorted((ROOT / "tests" / "unit").rglob("*.py"))
        },
    )


def print_table(found: Sequence[Mark], recorded: limits.Limits, *, with_lists: bool) -> None:
    """A row for each mark: its value, its limit, what issue 34 asks for."""
    print(f"{'mark':58} {'now':>8} {'limit':>8} {'goal':>8}")
    for mark in found:
        limit = recorded.at_most.get(mark.name, recorded.at_least.get(mark.name))
        shown = "" if limit is None else f"{limit:.10g}"
        print(f"{mark.name:58} {f'{mark.value:.10g}':>8} {shown:>8} {mark.goal:>8}")
        if with_lists:
            for each in mark.listed:
                print(f"    {each}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
