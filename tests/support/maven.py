"""Jars that Maven fetches once into the user's cache, by a pom.xml in this repository."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from josefine_arrow.cache.directory import cache_dir

TIMEOUT_S = 600


class NoJarsError(RuntimeError):
    """Why they cannot be had, in one sentence."""


def jars_of(pom: Path, name: str) -> list[str]:
    """Paths of all that `pom` depends on; `name` says what that is and its version. Raises
    NoJarsError."""
    folder = cache_dir("jars") / name
    if not folder.is_dir():
        _fill(folder, pom, name)
    return sorted(str(path) for path in folder.glob("*.jar"))


def _fill(folder: Path, pom: Path, name: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoJarsError(
            f"there is no Maven (`mvn`) to fetch {name} with: "
            "install it (Debian: apt-get install maven) and run this again"
        )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="filling-") as scratch:
        target = Path(scratch) / "jars"
        command = [
            maven, "--quiet", "--batch-mode", f"--file={pom}", f"-DoutputDirectory={target}",
            "dependency:copy-dependencies",
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S
        )
        if done.returncode != 0:
            reason = (done.stdout.strip().splitlines() or ["it said nothing"])[0]
            raise NoJarsError(f"Maven could not fetch {name}: {reason}")
        target.rename(folder)
