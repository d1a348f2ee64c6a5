"""Commands that only look report brokers that do not answer at once, not as patiently as a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_cli.main import run
from pipelines.sources import at_once
from pipelines.sources.josefine import LOOK_TIMEOUT_MS
from tests.unit.pipelines.config.test_validate import GOOD


@pytest.mark.parametrize(
    "verb", [("status",), ("offsets", "show"), ("graph", "--live"), ("preview", "raw")]
)
def test_brokers_that_do_not_answer_are_reported_at_once(
    verb: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert at_once.BOOTSTRAP_TIMEOUT_MS <= 2_000 < LOOK_TIMEOUT_MS
    monkeypatch.setattr(at_once, "BOOTSTRAP_TIMEOUT_MS", 0)
    file = tmp_path / "f.yaml"
    file.write_text(GOOD.replace("localhost:9092", "127.0.0.1:1"))
    name, *rest = verb
    words = [name, "show", str(file)] if rest == ["show"] else [name, str(file), *rest]

    run(["pipeline", *words])

    said = "".join(capsys.readouterr())
    assert ("lag not known" if name == "graph" else "tried once in 0.") in said
