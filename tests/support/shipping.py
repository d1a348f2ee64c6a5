"""What is shipped, built from what git has, and Python environments without our sources.

Nothing is fetched: an environment sees the packages of the tests' own through links.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Collection, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


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
    """The folder of the wheels and sdists; `tree` is an empty folder for the sources."""
    copy_sources(tree, lambda name: not name.startswith("tests/"))
    done = subprocess.run(
        [sys.executable, "-m", "conf.distributions.build", "out"], cwd=tree, env=bare_environment(),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tree / "out"


def wheel_of(folder: Path, name: str) -> Path:
    """The built wheel of a distribution."""
    (wheel,) = folder.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return wheel


def needs_of(wheel: Path, extras: Collection[str] = ()) -> list[Requirement]:
    """What the wheel's metadata requires here, with those extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().partition("\n\n")[0].splitlines()
    found = [Requirement(each[15:]) for each in lines if each.startswith("Requires-Dist: ")]
    return [each for each in found if _is_for(each, extras)]


def _is_for(need: Requirement, extras: Collection[str]) -> bool:
    return need.marker is None or any(
        need.marker.evaluate({"extra": extra}) for extra in ("", *extras)
    )


def environment_of(home: Path, folder: Path, *names: str, given: Sequence[str] = ()) -> Path:
    """The interpreter of an environment as pip would make it: the distributions `names` from the
    wheels in `folder`, what their metadata requires, and packages that are `given` there.

    Others' packages are links to those of the tests' environment; a requirement that does not fit
    the version that is here fails.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (target,) = home.glob("lib/python*/site-packages")
    waiting = [Requirement(each) for each in (*names, *given)]
    seen: set[str] = set()
    ours: list[Path] = []
    while waiting:
        need = waiting.pop()
        if str(need) in seen:
            continue
        seen.add(str(need))
        if need.name.startswith("josefine"):
            wheel = wheel_of(folder, need.name)
            ours.append(wheel)
            waiting += needs_of(wheel, need.extras)
            continue
        found = metadata.distribution(need.name)
        assert need.specifier.contains(found.version, prereleases=True), need
        waiting += [
            each for text in found.requires or () if _is_for(each := Requirement(text), need.extras)
        ]
        tops = {each.parts[0] for each in found.files or () if each.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            link = target / top
            if not link.is_symlink():
                link.symlink_to(Path(str(found.locate_file(top))))
    install(home, *map(str, sorted(set(ours))))
    return home / "bin" / "python"


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


def install(home: Path, *arguments: str) -> None:
    """Put wheels, or a folder's project, alone into the environment; `arguments` are pip's."""
    command = [sys.executable, "-m", "pip", "--python", str(home), "install", "-q"]
    # Compiled are the modules that a test loads, not all.
    command += ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    command += arguments
    subprocess.run(command, env=bare_environment(), check=True)


def bare_environment() -> dict[str, str]:
    """This process's environment without the way to our sources."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
