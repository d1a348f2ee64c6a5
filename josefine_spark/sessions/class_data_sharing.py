"""The archive of the JVM's loaded classes, with which Spark starts in half the processor time.

A session loads and verifies 15,000 classes before its first query; from an archive (class data
sharing, JEP 350) they are mapped. Measured until a table has its second commit: 10.8 s of processor
time without, 6.1 s with it. `./build.sh setup` creates the archive
(`pipelines.run.make_class_archive`), 200 MB in the cache; a session uses the matching one. The JVM
checks that the class path is the archive's, and otherwise starts without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from josefine_arrow.cache.directory import cache_dir, mark_used

OPTIONS = "spark.driver.extraJavaOptions"
WORK = 2
"""Version of the workload that creates the archive: a new version means a new archive."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""By default the JVM writes warnings to stdout, which is the user's."""


def archive() -> Path | None:
    """The path of the archive for this Java and this PySpark; None without either."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    import pyspark

    release = Path(java).resolve().parent.parent / "release"
    try:
        kind = release.read_bytes() + str(release.parent).encode()
    except OSError:
        return None
    jars = Path(pyspark.__file__).resolve().parent / "jars"
    words = f"{jars} {pyspark.__version__} {WORK}"
    digest = hashlib.sha256(kind + words.encode()).hexdigest()[:16]
    return cache_dir("classes") / f"{digest}.jsa"


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """The JVM's options with the archive, if it exists and the caller sets none."""
    given = settings.get(OPTIONS, "")
    if "SharedArchiveFile" in given or "ArchiveClassesAtExit" in given or "-Xshare" in given:
        return {}
    path = archive()
    if path is None or not path.is_file():
        return {}
    mark_used(path)
    return {OPTIONS: f"{given} {QUIET} -XX:SharedArchiveFile={path}".strip()}
