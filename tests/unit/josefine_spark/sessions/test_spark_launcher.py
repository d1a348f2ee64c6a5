"""Spark's JVM is started with the command line that Spark makes, only sooner."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from josefine_spark.sessions.spark_launcher import NAME, OPTIONS, quick_launcher

HOME = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)


def command_line(*options: str) -> str:
    """As `bin/spark-class` asks for it."""
    asked = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}
    done = subprocess.run(
        [java, "-Xmx128m", *options, "-cp", f"{HOME}/jars/*", *asked, "pyspark-shell"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_the_command_line_is_the_one_that_spark_makes() -> None:
    with quick_launcher():
        options = os.environ[NAME].split()

    assert any(option.startswith("-Xbootclasspath/a:") for option in options)
    assert "org.apache.spark.deploy.SparkSubmit" in command_line()
    assert command_line(*options) == command_line()


def test_the_options_are_those_of_a_session_s_start_alone() -> None:
    with pytest.raises(RuntimeError), quick_launcher():
        raise RuntimeError

    assert NAME not in os.environ


def test_options_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "-Xmx64m")

    with quick_launcher():
        assert os.environ[NAME] == "-Xmx64m"
    assert os.environ[NAME] == "-Xmx64m"


@pytest.mark.parametrize("jars", [["a b/spark-launcher_1.jar"], [], ["c/spark-launcher_1.jar"] * 2])
def test_a_jar_that_is_not_sure_is_left_out(
    jars: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A shell would cut its path, or there is none, or there are two."""
    for number, jar in enumerate(jars):
        folder = tmp_path / Path(jar).parent / "jars"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"spark-launcher_{number}.jar").touch()
        monkeypatch.setenv("SPARK_HOME", str(folder.parent))
    if not jars:
        monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    with quick_launcher():
        assert os.environ[NAME] == OPTIONS
