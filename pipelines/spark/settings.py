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

_HADOOP = "spark.hadoop."
_OF_STORES = (
    "fs.s3a.access.key", "fs.s3a.aws.credentials.provider", "fs.s3a.connection.ssl.enabled",
    "fs.s3a.endpoint", "fs.s3a.endpoint.region", "fs.s3a.path.style.access", "fs.s3a.secret.key",
    "fs.s3a.session.token",
)  # fmt: skip
"""Hadoop's settings that lead to a store: a slip in one is a request to AWS, or with no keys."""
_STORE_CUTOFF = 0.93
"""Others of Hadoop, such as `fs.s3a.endpoint.fips`, are less similar to one of these."""

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
    if key.startswith(_HADOOP):
        return _slip_of_store(key.removeprefix(_HADOOP))
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


def _slip_of_store(name: str) -> str | None:
    if name in _OF_STORES:
        return None
    close = difflib.get_close_matches(name, _OF_STORES, n=1, cutoff=_STORE_CUTOFF)
    return f"Hadoop ignores it; did you mean `{_HADOOP}{close[0]}`?" if close else None


def _nearest(key: str) -> str | None:
    by_case = {each.lower(): each for each in known()}
    if key.lower() in by_case:
        return by_case[key.lower()]
    alike = [each for each in by_case if abs(len(each) - len(key)) <= _LENGTHS_APART_MAX]
    close = difflib.get_close_matches(key.lower(), alike, n=1, cutoff=_CUTOFF)
    return by_case[close[0]] if close else None
