"""The factory of Spark sessions that can read and write Delta and know `format("josefine")`.

Rules: the workers run this interpreter and import this package, on a cluster the files that were
sent to them; times are UTC; nothing is downloaded when the jars exist already; the caller's `conf`
takes precedence.

Delta's jars are searched in this order, the first hit wins:
1. the folder named by `JOSEFINE_SPARK_JARS`;
2. Delta already on the classpath (the caller's conf, spark-submit, `$SPARK_HOME/jars`);
3. the cached folder, filled once by Maven from `pom.xml` in this folder. Ivy does not read Maven's
   settings, so where only Maven is configured nothing else works;
4. packages through Spark's own resolver (Ivy).
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from josefine_arrow.cache.directory import cache_dir
from josefine_broker.base.install_commands import not_installed
from josefine_spark.options.environment import settle_environment
from josefine_spark.sessions.class_data_sharing import OPTIONS, with_archive
from josefine_spark.sessions.python_worker import choose_python
from josefine_spark.sessions.registration import (
    active_session,
    log_without_effect,
    make_active,
    needs_registration,
    register,
)
from josefine_spark.sessions.spark_launcher import quick_launcher
from josefine_spark.sessions.store_packages import JARS, store_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_VERSION = "4.4.0"
"""The newest Delta with jars for Spark 4.1 and 4.2; pom.xml has the same version."""

SPARK_VERSIONS = ("4.1", "4.2")
"""Spark versions that have a Delta jar of their own. The jar without a suffix must not be used: its
Spark version changes from one release to the next."""

JAVA_MAJOR_MIN = 17
MAVEN_TIMEOUT_S = 600
POM = Path(__file__).with_name("pom.xml")
IVY_SETTINGS = Path(__file__).with_name("ivysettings.xml")
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

IVY = "~/.ivy2.5.2"
"""Where Spark 4's resolver keeps jars, unless `spark.jars.ivy` names another folder."""

FROM_DELTA = ("io.delta_", "io.unitycatalog_")
"""Prefixes of Ivy's file names for these organisations: `io.delta_delta-storage-4.4.0.jar`."""

IN_PYSPARK = ("org.apache.hadoop:*", "org.apache.logging.log4j:*", "org.scala-lang:*")
"""The largest dependencies of Delta that PySpark already has; Ivy would download 80 MB of them."""

DEFAULTS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Two files are enough for the state of a table with few files; the default is 50 tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stopTimeout": "30s",
    # A Python process and the JVM have 15 s to authenticate to each other by default, which is too
    # short on a busy machine. A longer timeout does not delay the report of real errors.
    "spark.python.authenticate.socketTimeout": "120s",
    # Spark's default of 10,000 rows is 10 MB with large rows, which no longer fits the processor's
    # cache when it is read again: that cost 30 % of a task's time of writing into a topic.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
}

LOCAL_DEFAULTS: Mapping[str, str] = {
    "spark.driver.memory": "2g",
    # A laptop's host name often resolves to an address on which nothing listens.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    OPTIONS: f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
}


UNDECLARED = ("spark.josefine.", "spark.sql.catalog.")
"""Settings of a session that Spark takes for not modifiable, because nobody has declared them."""


class SessionError(RuntimeError):
    """A session cannot be started; the message is one sentence with the remedy."""


def session(
    app_name: str = "josefine",
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
    paths: Sequence[str] = (),
) -> "SparkSession":
    """Return the running Spark session, or start one with Delta and `format("josefine")`.

    A running session keeps those of the settings in `conf` that can be changed, as it does after
    PySpark's `getOrCreate`: the next caller finds them. The others are ignored.
    `master` defaults to `local[*]` unless `conf` or spark-submit names one. `paths`: what the job
    reads and writes; for one in an object store, the package of its file system is added. Raises
    SessionError.
    """
    prepare_environment()
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise SessionError(not_installed(error.name or "pyspark")) from error

    running = running_session()
    if running is not None:
        for key, value in (conf or {}).items():
            if key.startswith(UNDECLARED) or running.conf.isModifiable(key):
                running.conf.set(key, value)
        _make_known(running)
        return running
    # With spark-submit the JVM runs already: its master, class path and JVM options are fixed.
    settings = dict(DEFAULTS)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        choose_python(local=False)
    else:
        settings["spark.master"] = master or (conf or {}).get("spark.master", "local[*]")
        choose_python(local=settings["spark.master"].split("[")[0] == "local")
        if settings["spark.master"].startswith("local"):
            settings.update(LOCAL_DEFAULTS)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 2)
        check_java()
    settings.update(joined(settings, conf or {}))
    if not submitted:
        settings.update(_store_conf(paths, settings))
        settings.update(delta_conf(settings))
        settings.update(with_archive(settings))
    builder = SparkSession.builder.appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with quick_launcher():
        spark = builder.getOrCreate()
    if settings.get("spark.jars.ivySettings") == str(IVY_SETTINGS):
        _keep_resolved(spark)
    _make_known(spark)
    return spark


def joined(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The given settings, with the JVM options appended to those of the defaults: if an option
    occurs twice, Java uses the last one."""
    settings = dict(given)
    options = [each[OPTIONS] for each in (defaults, given) if each.get(OPTIONS)]
    if options:
        settings[OPTIONS] = " ".join(options)
    return settings


def running_session() -> "SparkSession | None":
    """The active session; in another thread, the session of this process; None: Spark does not
    run."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return active_session() or SparkSession.active()
    except PySparkRuntimeError:
        return None


def _make_known(spark: "SparkSession") -> None:
    make_active(spark)
    if needs_registration(spark.conf.get("spark.master", "local") or "local"):
        register(spark)
    else:
        settle_environment(spark)
        log_without_effect(spark)


def prepare_environment() -> None:
    """Set PYTHONPATH so that Spark's Python workers can import this package."""
    root = Path(__file__).resolve().parents[2]
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in installed and str(root) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(root), *paths])


def check_java() -> None:
    """Raise SessionError when there is no Java runtime, or one too old for Spark 4."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME={home} has none" if home else "there is none on PATH"
        raise SessionError(
            f"Spark needs a Java {JAVA_MAJOR_MIN} runtime and {where}: "
            f"install one, for example `apt-get install openjdk-{JAVA_MAJOR_MIN}-jre-headless`"
        )
    major = _java_major(Path(java))
    if major is not None and major < JAVA_MAJOR_MIN:
        raise SessionError(
            f"Spark needs Java {JAVA_MAJOR_MIN} or newer and {java} is Java {major}: "
            "install a newer one or point JAVA_HOME at it"
        )


def _java_major(java: Path) -> int | None:
    """The major version from the runtime's `release` file (no process start), None if unknown."""
    try:
        release = (java.resolve().parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', release)
    return int(match.group(1)) if match else None


def delta_conf(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that put Delta on the classpath, given the caller's; may run Maven."""
    given = os.environ.get("JOSEFINE_SPARK_JARS")
    if given:
        return _with_jars(settings, jars_in(Path(given).expanduser()))
    if _delta_on_classpath(settings):
        return {}
    spark = spark_version()
    folder = _jars_folder(spark)
    if not folder.is_dir() and not fill_with_maven(folder, spark):
        package = f"io.delta:delta-spark_{spark}_2.13:{DELTA_VERSION}"
        packages = [p for p in settings.get("spark.jars.packages", "").split(",") if p]
        return {
            "spark.jars.packages": ",".join([*packages, package]),
            "spark.jars.excludes": settings.get("spark.jars.excludes", _excludes(packages)),
            "spark.jars.ivySettings": settings.get("spark.jars.ivySettings", str(IVY_SETTINGS)),
        }
    return _with_jars(settings, jars_in(folder))


def _excludes(packages: Sequence[str]) -> str:
    """Of Hadoop only what PySpark has, if the caller asks for another part of it."""
    if not any(each.startswith("org.apache.hadoop:") for each in packages):
        return ",".join(IN_PYSPARK)
    client = (f"org.apache.hadoop:hadoop-client-{part}" for part in ("api", "runtime"))
    return ",".join([*client, *(each for each in IN_PYSPARK if "hadoop" not in each)])


def fetches_jars(settings: Mapping[str, str]) -> bool:
    """Whether a session with these settings will first download Delta's jars, which takes minutes
    on a slow network. Raises SessionError."""
    if os.environ.get("JOSEFINE_SPARK_JARS") or _delta_on_classpath(settings):
        return False
    return not _jars_folder(spark_version()).is_dir()


def fetches_packages(settings: Mapping[str, str], paths: Sequence[str]) -> bool:
    """Whether a session that uses these paths will first download the file systems of their stores,
    several hundred MB for S3."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has fetched what it was given
        return False
    packages = _store_conf(paths, settings).get("spark.jars.packages", "").split(",")
    jars = Path(settings.get("spark.jars.ivy", IVY)).expanduser() / "jars"
    hadoop = (each.split(":") for each in packages if each.startswith("org.apache.hadoop:"))
    return any(
        not Path(jars, f"{org}_{name}-{version}.jar").is_file() for org, name, version in hadoop
    )


def _jars_folder(spark: str) -> Path:
    return cache_dir("jars") / f"delta-{DELTA_VERSION}-spark-{spark}"


def _keep_resolved(spark: "SparkSession") -> None:
    """Copy the jars that Ivy resolved into the cached folder, so that they are found next time."""
    folder = _jars_folder(spark_version())
    resolved = [
        Path(jar.removeprefix("file:"))
        for jar in spark.sparkContext.getConf().get("spark.jars", "").split(",")
        if jar
    ]
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="filling-") as scratch:
        target = Path(scratch) / "jars"
        target.mkdir()
        for jar in resolved:
            if jar.name.startswith(FROM_DELTA) and jar.is_file():
                shutil.copy(jar, target / jar.name.split("_", 1)[1])
        if any(target.glob("delta-spark*.jar")):
            with contextlib.suppress(OSError):  # another session was first
                target.rename(folder)


def spark_version() -> str:
    """`major.minor` of the installed PySpark; SessionError when Delta has no jar for it."""
    import pyspark

    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in SPARK_VERSIONS:
        raise SessionError(
            f"Delta {DELTA_VERSION} has no jar for PySpark {pyspark.__version__}: "
            f"install pyspark {' or '.join(SPARK_VERSIONS)}"
        )
    return version


def jars_in(folder: Path) -> list[str]:
    """The jars of a folder, sorted; SessionError when it has no Delta among them."""
    jars = sorted(str(path) for path in folder.glob("*.jar"))
    if not any(Path(jar).name.startswith("delta-spark") for jar in jars):
        raise SessionError(f"{folder} has no delta-spark jar: fill it or remove it")
    return jars


def fill_with_maven(folder: Path, spark: str) -> bool:
    """Fill `folder` with Delta's jars through Maven. False when there is no Maven or it fails.

    The folder appears whole or not at all: two sessions may start at once.
    """
    maven = shutil.which("mvn")
    if maven is None:
        return False
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="filling-") as scratch:
        target = Path(scratch) / "jars"
        command = [
            maven,
            "--quiet",
            "--batch-mode",
            f"--file={POM}",
            f"-Dspark.binary.version={spark}",
            f"-DoutputDirectory={target}",
            "dependency:copy-dependencies",
        ]
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=MAVEN_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"josefine: Maven could not fetch Delta's jars: {error}", file=sys.stderr)
            return False
        if done.returncode != 0 or not any(target.glob("delta-spark*.jar")):
            last = done.stdout.strip().splitlines()[:1]
            print(f"josefine: Maven could not fetch Delta's jars: {last}", file=sys.stderr)
            return False
        try:
            target.rename(folder)
        except OSError:
            # Another session was first; its folder has the same jars.
            return folder.is_dir()
    return True


def _store_conf(paths: Sequence[str], settings: Mapping[str, str]) -> dict[str, str]:
    """Nothing where Hadoop has a configuration of its own: it names the file systems."""
    if not paths or "HADOOP_CONF_DIR" in os.environ:
        return {}
    folders = [home / "jars" for home in _spark_homes()]
    if os.environ.get("JOSEFINE_SPARK_JARS"):
        folders.append(Path(os.environ["JOSEFINE_SPARK_JARS"]).expanduser())
    there = [
        jar for jar in JARS if any(next(folder.glob(f"{jar}*.jar"), None) for folder in folders)
    ]
    return store_conf(paths, settings, hadoop_version(), on_classpath=there)


def hadoop_version() -> str | None:
    """The version of Spark's Hadoop, from the name of its jar; None if there is none."""
    for home in _spark_homes():
        for jar in home.glob("jars/hadoop-client-api-*.jar"):
            return jar.stem.removeprefix("hadoop-client-api-")
    return None


def _with_jars(settings: Mapping[str, str], jars: list[str]) -> dict[str, str]:
    others = [jar for jar in settings.get("spark.jars", "").split(",") if jar]
    return {"spark.jars": ",".join([*others, *jars])}


def _delta_on_classpath(settings: Mapping[str, str]) -> bool:
    named = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    if any("delta-spark" in settings.get(name, "") for name in named):
        return True
    if "delta-spark" in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        return True
    return any(next((home / "jars").glob("delta-spark*.jar"), None) for home in _spark_homes())


def _spark_homes() -> list[Path]:
    homes = [Path(os.environ["SPARK_HOME"])] if "SPARK_HOME" in os.environ else []
    import pyspark

    return [*homes, Path(pyspark.__file__).parent]
