"""The Maven packages that Spark needs for object stores, decided from paths and settings.

Pure. Hadoop's file system for S3 must have the version of Spark's Hadoop. Only S3 is added: the
file systems of other stores are left to the caller's settings.
"""

from collections.abc import Iterable, Mapping

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
PACKAGE = "org.apache.hadoop:hadoop-aws"
_NAMES = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def store_conf(
    paths: Iterable[str], settings: Mapping[str, str], hadoop: str | None, *, on_classpath: bool
) -> dict[str, str]:
    """The settings that let Spark reach `paths`, given the caller's.

    `hadoop`: the version of Spark's Hadoop, None if unknown. `on_classpath`: whether a jar of S3A
    is there already. Empty if no path is in S3.
    """
    schemes = {path.partition("://")[0] for path in paths if "://" in path}
    found: dict[str, str] = {}
    # Hadoop has no file system for the scheme `s3`, which AWS's own tools print.
    if "s3" in schemes and "spark.hadoop.fs.s3.impl" not in settings:
        found["spark.hadoop.fs.s3.impl"] = S3A
    ours = {
        scheme
        for scheme in schemes & {"s3", "s3a"}
        if settings.get(f"spark.hadoop.fs.{scheme}.impl", S3A) == S3A
    }
    brought = any("hadoop-aws" in settings.get(name, "") for name in _NAMES)
    if not ours or hadoop is None or on_classpath or brought:
        return found
    packages = [each for each in settings.get("spark.jars.packages", "").split(",") if each]
    return {**found, "spark.jars.packages": ",".join([*packages, f"{PACKAGE}:{hadoop}"])}
