"""What is shipped, built from what git has, and Python environments without our sources.

Nothing is fetched: an environment sees the packages of the tests' own through links.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = "from setuptools import build_meta as b; b.build_sdist('out'); b.build_wheel('out')"


def copy_sources(tree: Path, wanted: Callable[[str], bool]) -> None:
    """Of the files that git has, or will have, those that are `wanted` by their path."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if not wanted(name) or not (ROOT / name).exists():
            continue
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name, follow_symlinks=False)


def build(tree: Path) -> Path:
    """The folder of the wheel and the sdist; `tree` is an empty folder for the sources."""
    copy_sources(tree, lambda name: not name.startswith("tests/"))
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=tree, env=bare_environment(), capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tree / "out"


def linked_environment(home: Path, *, without: tuple[str, ...] = ()) -> Path:
    """The interpreter of a new environment with the packages of this one, but ours and `without`
    (their top-level names)."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (target,) = home.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        is_ours = entry.name.startswith(("josefine", "__editable__"))
        if not is_ours and entry.suffix != ".pth" and entry.name.split(".")[0] not in without:
            (target / entry.name).symlink_to(entry)
    return home / "bin" / "python"


def install(wheel: Path, home: Path, *options: str) -> None:
    """Put the wheel, or a folder's project, alone into the environment; `options` are pip's."""
    command = [sys.executable, "-m", "pip", "--python", str(home), "install", "-q"]
    command += ["--no-deps", "--no-index", "--disable-pip-version-check", *options, str(wheel)]
    subprocess.run(command, env=bare_environment(), check=True)


def bare_environment() -> dict[str, str]:
    """This process's environment without the way to our sources."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
