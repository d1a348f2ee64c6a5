"""Which interpreter Spark's Python processes are started with, and what it leaves out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from josefine_spark.sessions import python_worker
from josefine_spark.sessions.python_worker import NAMES, choose_python

HOME = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPARK_HOME", *NAMES):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("JOSEFINE_CACHE", str(tmp_path / "cache"))


def chosen() -> set[str]:
    return {os.environ[name] for name in NAMES}


def test_a_process_is_this_interpreter_without_spark_s_zips() -> None:
    choose_python(local=True)
    (python,) = chosen()
    zips = [f"{HOME}/python/lib/pyspark.zip", f"{HOME}/jars/spark-core.jar"]
    kept = ["/some where/*", "/else'where"]
    shown = (
        "import json, os, sys; print(json.dumps([sys.prefix, sys.argv, os.environ['PYTHONPATH']]))"
    )

    done = subprocess.run(
        [python, "-c", shown, "an argument", "*"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*zips, kept[0], *zips, kept[1]])},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert python != sys.executable
    assert json.loads(done.stdout) == [sys.prefix, ["-c", "an argument", "*"], ":".join(kept)]


@pytest.mark.parametrize(("said", "threads"), [({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3")])
def test_numpy_starts_no_threads_in_a_process_unless_it_is_told_how_many(
    said: dict[str, str], threads: str
) -> None:
    choose_python(local=True)
    (python,) = chosen()
    shown = "import os; print(os.environ['OMP_NUM_THREADS'])"

    there = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [python, "-c", shown], env=there | said, stdout=subprocess.PIPE, text=True, check=True
    )

    assert done.stdout.strip() == threads


def test_a_cluster_s_machines_have_no_such_script() -> None:
    choose_python(local=True)
    choose_python(local=False)

    assert chosen() == {sys.executable}


def test_what_the_user_chose_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "/my/python")

    choose_python(local=True)

    assert chosen() == {"/my/python"}


def test_another_spark_keeps_its_zips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")

    choose_python(local=True)

    assert chosen() == {sys.executable}


def test_a_pyspark_that_is_not_installed_keeps_its_zips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__file__", "/opt/spark/python/pyspark/__init__.py")

    choose_python(local=True)

    assert chosen() == {sys.executable}


def test_a_cache_where_nothing_may_be_run_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_worker.os, "access", lambda path, mode: mode != os.X_OK)

    choose_python(local=True)

    assert chosen() == {sys.executable}
