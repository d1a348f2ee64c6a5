"""`josefine pipeline dev` without Spark: errors of the file, its end, wrong usage."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_cli.base.errors import EXIT_SIGNAL, EXIT_USAGE
from josefine_cli.main import run
from josefine_cli.pipeline.dev import MASTER, QUICK, settings_of
from pipelines.config.loader import load
from pipelines.config.validate import validate
from tests.support.cli import COMMAND, environment
from tests.support.waiting import wait_until
from tests.unit.pipelines.config.test_validate import GOOD

START_S = 60.0


class Dev:
    """The command as a process, its output in a file."""

    def __init__(self, file: Path, *arguments: str) -> None:
        self.file = file
        self._out = file.with_suffix(".out")
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [*COMMAND, "pipeline", "dev", str(file), *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=environment("127.0.0.1:1"), start_new_session=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self._out.read_text()

    def round(self, number: int, timeout_s: float = START_S) -> str:
        """What a round printed, once it is done."""

        def is_done() -> bool:
            assert self.process.poll() is None, self.said
            return any(f"round {number}:" in line for line in self.said.splitlines())

        wait_until(is_done, timeout_s, f"round {number}")
        before = self.said.partition(f"round {number}:")
        return before[0].rpartition("waits for a save")[2] + "".join(before[1:])

    def save(self, text: str) -> None:
        """As an editor does: a new file in place of the old one."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self.file)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def wrong(tmp_path: Path) -> Iterator[Dev]:
    file = tmp_path / "f.yaml"
    file.write_text(GOOD.replace("sources:", "sorces:"))
    dev = Dev(file)
    yield dev
    dev.process.kill()
    dev.process.wait()


def test_a_lint_error_shows_without_spark_and_no_error_ends_the_loop(wrong: Dev) -> None:
    first = wrong.round(1)
    wrong.save("version: [")
    second = wrong.round(2)
    wrong.save(GOOD.replace("mode:", "mod:"))
    third = wrong.round(3)

    assert f"{wrong.file}:" in first
    assert "`sorces`" in first
    assert f"{wrong.file}:" in second
    assert "`mod`" in third
    assert "Spark" not in wrong.said
    assert "Traceback" not in wrong.said
    assert wrong.end(signal.SIGINT) == 0


def test_another_signal_than_ctrl_c_ends_it_with_the_exit_code_of_the_signal(wrong: Dev) -> None:
    wrong.round(1)

    assert wrong.end(signal.SIGTERM) == EXIT_SIGNAL + signal.SIGTERM


def test_a_file_that_does_not_exist_names_the_command_that_writes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.yaml"

    assert run(["pipeline", "dev", str(file)]) == EXIT_USAGE
    assert f"{file} is not a file: josefine pipeline init {file}" in capsys.readouterr().err


def test_settings_of_the_file_win_and_the_master_is_this_machine() -> None:
    shuffles = "spark.sql.shuffle.partitions"
    spark = f"spark: {{ master: yarn, conf: {{ {shuffles}: 7 }}, "
    pipeline = validate(load(GOOD.replace("spark: { ", spark), "f.yaml", {}))

    settings, master = settings_of(pipeline)

    assert settings == {**QUICK, shuffles: "7"}
    assert master == MASTER
