"""The Maven packages that Spark needs for object stores, decided from paths and settings.

Pure. Hadoop's file systems for S3, Azure and Google Cloud Storage must have the version of Spark's
Hadoop. A package is added only where a path needs it and the caller has brought none.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
AZURE = "org.apache.hadoop.fs.azurebfs."
GOOGLE = "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"
GOOGLE_SINCE = (3, 5)
"""The first Hadoop that has a file system for Google's store."""
_NAMES = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


class _Store(NamedTuple):
    """The file system of a scheme. `jars`: names of jars that have it; the first is the package."""

    jars: tuple[str, ...]
    impl: str


_S3 = _Store(("hadoop-aws",), S3A)
_STORES: Mapping[str, _Store] = {
    "s3": _S3,
    "s3a": _S3,
    "abfs": _Store(("hadoop-azure",), f"{AZURE}AzureBlobFileSystem"),
    "abfss": _Store(("hadoop-azure",), f"{AZURE}SecureAzureBlobFileSystem"),
    "gs": _Store(("hadoop-gcp", "gcs-connector"), GOOGLE),
}
JARS = tuple(dict.fromkeys(jar for store in _STORES.values() for jar in store.jars))
"""Names of the jars that the caller may have on the class path."""


def store_conf(
    paths: Iterable[str],
    settings: Mapping[str, str],
    hadoop: str | None,
    *,
    on_classpath: Collection[str] = (),
) -> dict[str, str]:
    """The settings that let Spark reach `paths`, given the caller's.

    `hadoop`: the version of Spark's Hadoop, None if unknown. `on_classpath`: those of JARS that are
    there already. Empty if no path is in an object store.
    """
    schemes = {path.partition("://")[0] for path in paths if "://" in path}
    found: dict[str, str] = {}
    # Hadoop has no file system for the scheme `s3`, which AWS's own tools print.
    if "s3" in schemes and "spark.hadoop.fs.s3.impl" not in settings:
        found["spark.hadoop.fs.s3.impl"] = S3A
    packages = []
    for scheme, store in _STORES.items():
        named = settings.get(f"spark.hadoop.fs.{scheme}.impl", store.impl)
        brought = any(jar in settings.get(name, "") for name in _NAMES for jar in store.jars)
        if scheme not in schemes or named != store.impl or brought:
            continue
        if hadoop is None or set(store.jars) & set(on_classpath):
            continue
        if scheme == "gs" and _version(hadoop) < GOOGLE_SINCE:
            continue
        packages.append(f"org.apache.hadoop:{store.jars[0]}:{hadoop}")
    if packages:
        given = [each for each in settings.get("spark.jars.packages", "").split(",") if each]
        found["spark.jars.packages"] = ",".join([*given, *dict.fromkeys(packages)])
    return found


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
