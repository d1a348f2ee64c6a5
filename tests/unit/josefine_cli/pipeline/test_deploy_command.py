"""The commands that `josefine pipeline deploy` prints at its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from josefine_cli.pipeline.deploy import _next_steps

MADE = cast(
    Any,
    SimpleNamespace(
        ident="d1",
        new=SimpleNamespace(as_arguments="new.yaml"),
        command=lambda option: f"josefine pipeline deploy new.yaml --against old.yaml {option}",
    ),
)


def test_after_the_comparison_the_swap_and_its_opposite_are_named() -> None:
    steps = "\n".join(_next_steps(MADE, swaps=False))
    assert "no live table was changed" in steps
    assert "--swap" in steps
    assert "--abort" in steps


def test_after_the_swap_the_new_file_is_run_and_may_be_taken_back() -> None:
    steps = "\n".join(_next_steps(MADE, swaps=True))
    assert "josefine pipeline run new.yaml" in steps
    assert "--rollback" in steps
