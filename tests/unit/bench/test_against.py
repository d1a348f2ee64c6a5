"""Two commits compared: what is run, what is printed, and when the command fails."""

from pathlib import Path

import pytest

from tests.bench import against
from tests.bench.against import OURS, THEIRS, missing_here, report, requirements
from tests.unit.test_style import ROOT


def rounds(*pairs: tuple[float, float], name: str = "produce/records_per_s") -> against.Rounds:
    return [{OURS: {name: ours}, THEIRS: {name: theirs}} for ours, theirs in pairs]


def test_row_has_both_medians_and_the_ratio_with_its_spread() -> None:
    (line,) = report(rounds((90, 100), (100, 100), (120, 100)), 0.9)

    assert (line["this"], line["against"]) == (100, 100)
    assert (line["low"], line["ratio"], line["high"]) == (0.9, 1.0, 1.2)
    assert not line["worse"]


def test_slower_commit_is_worse_for_rates_and_for_costs() -> None:
    (rate,) = report(rounds((80, 100), (70, 100), (85, 100)), 0.9)
    (cost,) = report(rounds((125, 100), (140, 100), (120, 100), name="one/cpu_us_per_request"), 0.9)

    assert rate["worse"]
    assert cost["worse"]
    assert (rate["more_is_better"], cost["more_is_better"]) == (True, False)


def test_measure_of_an_idle_process_has_no_ratio_and_is_not_worse() -> None:
    (line,) = report(rounds((0, 0), name="idle/cpu_s_per_gb"), 0.9)

    assert "ratio" not in line
    assert not line["worse"]


def test_another_environment_is_made_only_for_dependencies_that_are_missing_here() -> None:
    here = requirements('[project]\nname = "a"\ndependencies = ["uvloop>=0.21", "new>=1"]\n')
    older = requirements('[project]\nname = "a"\ndependencies = ["uvloop>=0.21"]\n')

    assert missing_here(older, here) == []
    assert missing_here(here, older) == ["new>=1"]


def test_unknown_revision_is_one_sentence_with_what_to_do() -> None:
    with pytest.raises(SystemExit, match=r"no-such-rev: git knows no such commit; name one"):
        against.resolve("no-such-rev")


def test_checkout_has_the_commit_and_leaves_nothing() -> None:
    with against.checkout(against.resolve("HEAD")) as folder:
        there = (folder / "pyproject.toml").exists()

    assert there
    assert not Path(folder).exists()
    assert not (ROOT / ".git/worktrees" / folder.name).exists()


@pytest.mark.parametrize("slower", [True, False])
def test_command_fails_when_a_measure_is_worse(
    slower: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rounds((50, 100), (60, 100)) if slower else rounds((100, 100), (101, 100))
    monkeypatch.setattr(against, "measure", lambda *_: found)

    if slower:
        with pytest.raises(SystemExit, match=r"worse than 0.9 .* produce \(records/s\)"):
            against.main(["--against", "HEAD"])
    else:
        against.main(["--against", "HEAD"])

    assert '"measure": "produce"' in capsys.readouterr().out
