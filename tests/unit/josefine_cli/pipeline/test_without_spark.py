"""Commands that need Spark, where it is not installed: the message names what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from josefine_cli.base.errors import EXIT_FAILURE
from josefine_cli.main import run
from pipelines.base.errors import EXIT_ENVIRONMENT
from tests.unit.pipelines.config.test_validate import GOOD

DEAD = "dead_letter: { type: delta, path: 'abfss://dead@lake.dfs.core.windows.net/dead' }\ntrigger:"


@pytest.mark.parametrize(
    ("verb", "after"),
    [
        (("dlq", "show"), ()),  # only Spark reads a table in an object store
        (("dlq", "replay"), ()),
        (("preview",), ("clean",)),
        (("plan",), ()),
        (("test",), ()),
    ],
)
def test_without_spark_the_message_names_pyspark_and_the_command_that_installs_it(
    verb: tuple[str, ...],
    after: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] in ("pyspark", "py4j")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pyspark", "py4j"):
        monkeypatch.setitem(sys.modules, name, None)
    file = tmp_path / "f.yaml"
    text = GOOD.replace("on_error: fail", "on_error: dead_letter").replace("trigger:", DEAD)
    file.write_text(text)

    code = run(["pipeline", *verb, str(file), *after])

    said = capsys.readouterr().err.splitlines()[-1]
    assert code in (EXIT_FAILURE, EXIT_ENVIRONMENT)
    assert said.startswith("error: 'pyspark' is not installed: pip install ")
