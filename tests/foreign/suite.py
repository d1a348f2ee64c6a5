"""One foreign test suite: how it is fetched, built and run, and what each of its tests came to."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from josefine_arrow.cache.directory import cache_dir

BUILD_SECONDS = 1_800
"""librdkafka takes five minutes on two idle cores."""
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Outcome(NamedTuple):
    """What one foreign test came to, and why, where it did not pass."""

    result: str
    reason: str = ""


Outcomes = Mapping[str, Outcome]
"""Test → outcome."""


class UnavailableError(RuntimeError):
    """Why a suite cannot be fetched or built here, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The brokers that a suite expects."""

    brokers: int = 1
    overrides: Mapping[str, object] = field(default_factory=dict)
    """Configuration keys of each broker, with `__` for the dot."""
    has_acls: bool = False
    """Whether ACLs hold, and what none names is everybody's. For brokers of this project, three of
    them."""


class Suite(Protocol):
    """A runner: one file in this folder each. All are listed in `SUITES` of `test_suites.py`."""

    name: str
    version: str
    needs: Needs
    excluded: Mapping[str, str]
    """A pattern of tests → why their result says nothing about a broker; they count as skipped."""
    reasons: Mapping[str, str]
    """A pattern of tests → why they do not pass; written by hand, as are the exclusions."""

    def why_not(self) -> str:
        """The tool that is missing on this machine, or an empty string."""

    def build(self) -> None:
        """Fetch and build, once. Raises UnavailableError."""

    def run(self, bootstrap: str, scratch: Path) -> Outcomes:
        """Run every test that needs a broker; `scratch` is an empty folder."""


def why_no(*tools: str) -> str:
    """The first of these programs that is not installed, as a sentence; else an empty string."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return f"there is no `{missing[0]}` on this machine" if missing else ""


def built(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache; `make` fills it once, and it appears only when complete.

    `make` gets the folder under a temporary name: what it builds must not depend on that name.
    """
    folder = cache_dir("foreign") / name
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
            made = Path(scratch, "suite")
            made.mkdir()
            make(made)
            made.rename(folder)
    return folder


def build_step(command: Sequence[str], folder: Path) -> str:
    """One command of a build, and what it printed. Raises UnavailableError."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise UnavailableError(f"`{' '.join(command)}` failed: {said}")
    return done.stdout


def environment(**more: str) -> dict[str, str]:
    """Of a suite's process: this one's without what pytest and the virtual environment set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, **more}
