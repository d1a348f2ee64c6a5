"""Where Delta's jars come from, in which order, and what is said when something is missing."""

from __future__ import annotations

import os
import time
import xml.etree.ElementTree as ET
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from josefine_arrow.cache import kernels
from josefine_arrow.cache.directory import UNUSED_S, cache_dir, forget_unused, mark_used
from josefine_spark import session as package_session
from josefine_spark.sessions import class_data_sharing, compile_kernels
from josefine_spark.sessions.class_data_sharing import OPTIONS
from josefine_spark.sessions.registration import needs_registration
from josefine_spark.sessions.session import (
    DELTA_VERSION,
    POM,
    SessionError,
    check_java,
    delta_conf,
    fetches_jars,
    hadoop_version,
    joined,
    prepare_environment,
    spark_version,
)
from pipelines.run import make_class_archive
from pipelines.run.session import what_begins

JAR = "delta-spark_4.2_2.13-4.4.0.jar"

FAKE_MAVEN = """#!/bin/sh
echo "$@" >> "{log}"
for argument in "$@"; do
  case "$argument" in -DoutputDirectory=*) folder="${{argument#*=}}";; esac
done
{fail}
/bin/mkdir -p "$folder" && /usr/bin/touch "$folder/{jar}" "$folder/delta-storage-4.4.0.jar"
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JOSEFINE_SPARK_JARS", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JOSEFINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def fake_maven(tmp_path: Path, fail: str = "") -> Path:
    log = tmp_path / "mvn.log"
    program(tmp_path / "bin" / "mvn", FAKE_MAVEN.format(log=log, fail=fail, jar=JAR))
    return log


def test_a_given_folder_of_jars_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / JAR).touch()
    monkeypatch.setenv("JOSEFINE_SPARK_JARS", str(folder))

    conf = delta_conf({"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"})

    assert conf == {"spark.jars": str(folder / JAR)}


def test_a_given_folder_without_delta_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOSEFINE_SPARK_JARS", str(tmp_path))

    with pytest.raises(SessionError, match="has no delta-spark jar"):
        delta_conf({})


@pytest.mark.parametrize("name", ["spark.jars", "spark.jars.packages"])
def test_delta_that_the_caller_brings_is_left_alone(tmp_path: Path, name: str) -> None:
    log = fake_maven(tmp_path)

    brought = {name: "somewhere/delta-spark_4.2.jar"}
    assert delta_conf(brought) == {}
    assert not fetches_jars(brought)
    assert not log.exists()


def test_maven_fills_the_cache_once_and_other_jars_stay(tmp_path: Path) -> None:
    log = fake_maven(tmp_path)
    assert what_begins({}) == "Spark; Delta's jars are fetched first, once"

    first = delta_conf({"spark.jars": "mine.jar"})
    second = delta_conf({})

    folder = tmp_path / "cache" / "jars" / f"delta-{DELTA_VERSION}-spark-{spark_version()}"
    assert first["spark.jars"].split(",")[:2] == ["mine.jar", str(folder / JAR)]
    assert second["spark.jars"].split(",")[0] == str(folder / JAR)
    assert what_begins({}) == "Spark"
    assert len(log.read_text().splitlines()) == 1
    assert f"-Dspark.binary.version={spark_version()}" in log.read_text()


def test_a_start_names_the_file_system_of_a_store_until_it_is_there(tmp_path: Path) -> None:
    fake_maven(tmp_path)
    conf, paths = {"spark.jars.ivy": str(tmp_path / "ivy")}, ["/ck", "s3a://lake/t"]
    assert what_begins(conf, paths) == (
        "Spark; Delta's and the store's jars are fetched first, once"
    )
    delta_conf({})
    assert what_begins(conf, paths) == "Spark; the store's jars are fetched first, once"
    assert what_begins({**conf, "spark.jars": "hadoop-aws-3.5.0.jar"}, paths) == "Spark"

    there = tmp_path / "ivy" / "jars" / f"org.apache.hadoop_hadoop-aws-{hadoop_version()}.jar"
    there.parent.mkdir(parents=True)
    there.touch()

    assert what_begins(conf, paths) == "Spark"


def test_without_maven_sparks_own_resolver_fetches_the_jar_of_this_spark() -> None:
    package = f"io.delta:delta-spark_{spark_version()}_2.13:{DELTA_VERSION}"

    assert delta_conf({})["spark.jars.packages"] == package
    both = delta_conf({"spark.jars.packages": "a:b:1", "spark.jars.ivySettings": "mine.xml"})
    assert both["spark.jars.packages"] == f"a:b:1,{package}"
    assert both["spark.jars.ivySettings"] == "mine.xml"


def test_a_failing_maven_leaves_no_half_filled_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_maven(tmp_path, fail="echo 'no network'; exit 1")

    assert "spark.jars.packages" in delta_conf({})
    assert "no network" in capsys.readouterr().err
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_pom_names_the_version_that_the_code_names() -> None:
    properties = ET.parse(POM).getroot().find("{*}properties")

    assert properties is not None
    assert properties.findtext("{*}delta.version") == DELTA_VERSION


def test_missing_java_is_one_sentence_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SessionError, match=r"needs a Java 17 runtime .* none on PATH: install"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SessionError, match=f"JAVA_HOME={tmp_path} has none"):
        check_java()


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "jdk"
    program(home / "bin" / "java", "#!/bin/sh\n")
    (home / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))

    with pytest.raises(SessionError, match="is Java 11"):
        check_java()
    (home / "release").write_text('JAVA_VERSION="21"\n')
    check_java()


def test_workers_find_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    prepare_environment()
    prepare_environment()

    root = str(POM.resolve().parents[2])
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [root, "/elsewhere"]


def test_cache_falls_back_when_home_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.delenv("JOSEFINE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    assert cache_dir("numba").is_relative_to(tmp_path)


def test_what_nobody_has_used_for_long_leaves_the_cache() -> None:
    folder, now_s = cache_dir("classes"), time.time()
    for name, age_s in (("old", UNUSED_S + 1), ("used", UNUSED_S + 1), ("new", UNUSED_S - 1)):
        (folder / name).mkdir()
        (folder / name / "file").touch()
        (folder / f"{name}.jsa").touch()
        os.utime(folder / name, (0, now_s - age_s))
        os.utime(folder / f"{name}.jsa", (0, now_s - age_s))
    (folder / "others").touch()
    os.utime(folder / "others", (0, 0))
    for name in ("used", "used.jsa", "missing"):
        mark_used(folder / name)

    forget_unused("classes", ["o?d", "u*", "n*", "*.jsa"], now_s)

    (folder / "others").unlink()  # which is not ours, however old
    assert {path.name for path in folder.iterdir()} == {"used", "used.jsa", "new", "new.jsa"}
    assert (folder / "used" / "file").is_file()


def test_what_setup_removes_is_named_as_what_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "jdk" / "bin" / "java", "")
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    made = class_data_sharing.archive()
    assert made is not None
    with TemporaryDirectory(prefix=make_class_archive.SCRATCH) as scratch:
        for name in (made.name, Path(scratch).name):
            assert any(fnmatchcase(name, pattern) for pattern in make_class_archive.NAMES), name
    assert any(
        fnmatchcase(kernels._sources_digest(), pattern) for pattern in compile_kernels.FOLDERS
    )


def test_without_a_folder_to_cache_in_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("JOSEFINE_CACHE", str(tmp_path / "file"))

    forget_unused("classes", ["*"], time.time())


def test_loops_that_are_imported_are_marked_as_used() -> None:
    pytest.importorskip("numba")
    kernels.import_kernels("josefine_arrow.formats.json.kernels")  # writes into it, or finds it
    folder = cache_dir(f"numba/{kernels._sources_digest()}")
    os.utime(folder, (0, 0))

    kernels.import_kernels("josefine_arrow.formats.json.kernels")

    assert time.time() - folder.stat().st_mtime < UNUSED_S


def test_the_package_offers_the_session() -> None:
    assert callable(package_session)


def test_a_session_uses_the_archive_of_this_java_and_leaves_a_callers_own_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "jdk" / "bin" / "java", "")
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    path = class_data_sharing.archive()
    assert path is not None
    assert class_data_sharing.with_archive({}) == {}
    path.touch()
    os.utime(path, (0, 0))

    found = class_data_sharing.with_archive({class_data_sharing.OPTIONS: "-Xss1m"})
    own = class_data_sharing.with_archive({class_data_sharing.OPTIONS: "-Xshare:off"})
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="21.0.1"')

    assert time.time() - path.stat().st_mtime < UNUSED_S
    (options,) = found.values()
    assert options.startswith("-Xss1m ")
    assert options.endswith(f" -XX:SharedArchiveFile={path}")
    assert "stdout" not in options
    assert own == {}
    assert class_data_sharing.with_archive({}) == {}


@pytest.mark.parametrize(
    ("master", "elsewhere"),
    [
        ("local", False),
        ("local[2]", False),
        ("local[*,4]", False),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("yarn", True),
        ("k8s://https://127.0.0.1:6443", True),
    ],
)
def test_workers_elsewhere_need_what_was_sent_to_them(master: str, elsewhere: bool) -> None:
    assert needs_registration(master) is elsewhere


def test_options_of_the_jvm_stand_behind_ours_and_take_nothing_away() -> None:
    """So a file that makes the JVM smaller still has the session's log settings."""
    ours = {OPTIONS: "-Dlog=ours", "spark.ui.enabled": "false"}

    assert joined(ours, {OPTIONS: "-Xss4m", "a": "b"}) == {OPTIONS: "-Dlog=ours -Xss4m", "a": "b"}
    assert joined(ours, {}) == {OPTIONS: "-Dlog=ours"}
    assert joined({}, {"a": "b"}) == {"a": "b"}
