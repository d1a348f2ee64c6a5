"""`josefine pipeline init` without a broker: what it writes, and what it leaves alone."""

from pathlib import Path

import pytest

from josefine_cli.base.errors import EXIT_FAILURE, EXIT_USAGE
from josefine_cli.main import run
from josefine_cli.pipeline.init_from_topic import RECORDS_MAX
from pipelines.config.example import EXAMPLE


def test_without_a_topic_it_is_the_commented_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"

    assert run(["pipeline", "init", str(file)]) == 0
    assert file.read_text() == EXAMPLE.read_text()
    assert capsys.readouterr().out == f"{file}: written; next: josefine pipeline lint {file}\n"


@pytest.mark.parametrize("more", [[], ["--topic", "orders"]])
def test_a_file_that_is_there_stays_as_it_is_without_force(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("mine")

    assert run(["pipeline", "init", str(file), *more]) == EXIT_USAGE
    assert "is there already: --force writes over it" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert run(["pipeline", "init", str(file), "--force"]) == 0


def test_a_broker_that_is_not_there_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"

    code = run(["pipeline", "init", str(file), "--topic", "orders", "-b", "127.0.0.1:1"])

    assert code == EXIT_FAILURE
    assert "cannot reach a broker at 127.0.0.1:1" in capsys.readouterr().err
    assert not file.exists()
    assert RECORDS_MAX >= 100
