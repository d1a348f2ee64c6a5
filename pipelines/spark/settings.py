"""Checker of Spark and Delta setting names, with the most similar known name.

`python -m tests.spark_keys` reads the list next to this file from their jars. An application's own
names are accepted: only a name in Spark's own namespaces, or one similar to a known name, is
reported.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path

IS_DIRECT = "spark.josefine.directCommits"
"""The setting of a session: `false` has all tables written by Spark, where those whose rules allow
it have direct commits."""

LIST = Path(__file__).with_name("spark_keys.txt")

FREE = (
    "spark.app.",
    "spark.databricks.delta.properties.defaults.",
    "spark.delta.logStore.",
    "spark.driver.resource.",
    "spark.driverEnv.",
    "spark.executor.resource.",
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.hive.",
    "spark.io.encryption.commons.config.",
    "spark.kubernetes.",
    "spark.logConf.",
    "spark.metrics.conf.",
    "spark.network.crypto.config.",
    "spark.plugins.internal.conf.",
    "spark.port.",
    "spark.rpc.io.",
    "spark.scheduler.listenerbus.eventqueue.",
    "spark.shuffle.plugin.__config__.",
    "spark.sql.catalog.",
    "spark.ssl.",
    "spark.task.resource.",
    "spark.unsafe.",
    "spark.yarn.",
)
"""Prefixes after which a name is the user's choice, or belongs to another cluster manager."""

_LENGTHS_APART_MAX = 6
_CUTOFF = 0.85
"""Minimum similarity: Spark's names are long and share prefixes, so less is another name."""


@cache
def known() -> frozenset[str]:
    """The known names, our own among them."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return frozenset({IS_DIRECT, *(line for line in lines if line and line[0] != "#")})


@cache
def versions() -> str:
    """The versions of the list, such as `Spark 4.2.0 and Delta 4.4.0`."""
    return LIST.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def why_unknown(key: str) -> str | None:
    """The problem of a setting's name, or None. Names are case-sensitive, as in Spark."""
    if key in known() or key.startswith(FREE):
        return None
    if not key.startswith("spark."):
        if f"spark.{key}" in known():
            hint = f"did you mean `spark.{key}`?"
            return f"Spark ignores what does not begin with `spark.`; {hint}"
        hint = f"one of Hadoop's is written `spark.hadoop.{key}`"
        return f"Spark ignores what does not begin with `spark.`; {hint}"
    close = _nearest(key)
    if close:
        return f"{versions()} know no such setting; did you mean `{close}`?"
    head = ".".join(key.split(".")[:2])
    is_theirs = any(each == head or each.startswith(head + ".") for each in known())
    return f"{versions()} know no such setting" if is_theirs else None


def _nearest(key: str) -> str | None:
    by_case = {each.lower(): each for each in known()}
    if key.lower() in by_case:
        return by_case[key.lower()]
    alike = [each for each in by_case if abs(len(each) - len(key)) <= _LENGTHS_APART_MAX]
    close = difflib.get_close_matches(key.lower(), alike, n=1, cutoff=_CUTOFF)
    return by_case[close[0]] if close else None
