"""The build of the wheels and source distributions: `python -m conf.distributions.build FOLDER`.

Each distribution of the table gets a tree of its own, with the files that it owns under their
installed names and a pyproject.toml that is made here, and setuptools builds that tree. The source
distribution is the same tree, so a wheel that is built from it is the same wheel.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conf.distributions.installed_names import INSTALLED, rewritten
from conf.distributions.table import DISTRIBUTIONS, Distribution

ROOT = Path(__file__).resolve().parents[2]
NAMES = frozenset(each.name for each in DISTRIBUTIONS)
DOCUMENTS = ("README.md", "LICENSE")
_SETUPTOOLS = "from setuptools import build_meta as b; b.build_sdist('{0}'); b.build_wheel('{0}')"
_NAME = re.compile(r"[\w.-]+")


class BuildFailed(Exception):
    """A distribution that could not be built, with the reason."""


def main(arguments: Sequence[str]) -> int:
    """Build all distributions into the folder; prints the file names."""
    if len(arguments) != 1:
        print("usage: python -m conf.distributions.build FOLDER", file=sys.stderr)
        return 2
    try:
        built = build(ROOT, Path(arguments[0]))
    except BuildFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in built:
        print(path)
    return 0


def build(root: Path, folder: Path) -> list[Path]:
    """The wheel and the source distribution of each distribution, from the sources in `root`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="josefine-build-") as scratch:
        trees = [stage(each, root, Path(scratch) / each.name) for each in DISTRIBUTIONS]
        # At the same time: each is a process that mostly starts and compiles nothing.
        running = [_start(tree, folder.resolve()) for tree in trees]
        outputs = [process.communicate()[0] for process in running]
    for each, process, output in zip(DISTRIBUTIONS, running, outputs, strict=True):
        if process.returncode:
            raise BuildFailed(f"setuptools could not build {each.name}:\n{output}")
    return sorted(path for path in folder.iterdir() if path.suffix in {".whl", ".gz"})


def stage(distribution: Distribution, root: Path, tree: Path) -> Path:
    """A tree of the distribution's files, ready to be built."""
    for path in files(distribution, root):
        source, target = root / path, tree / installed_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".py":
            target.write_text(rewritten(source.read_text("utf-8"), path.as_posix()), "utf-8")
        else:
            shutil.copyfile(source, target)
    for name in DOCUMENTS:
        shutil.copyfile(root / name, tree / name)
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    (tree / "pyproject.toml").write_text(pyproject(distribution, project, tree), "utf-8")
    return tree


def files(distribution: Distribution, root: Path) -> Iterator[Path]:
    """What it owns, relative to `root`: its modules, type markers and data."""
    patterns = ("**/*.py", "**/py.typed", *distribution.data)
    for name in distribution.sources:
        source = root / name
        if source.is_file():
            yield Path(name)
            continue
        package = root / Path(name).parts[0]  # the patterns of data start there
        found = {path for pattern in patterns for path in package.glob(pattern)}
        for path in sorted(found):
            is_ours = path.is_file() and path.is_relative_to(source)
            if is_ours and "__pycache__" not in path.parts:
                yield path.relative_to(root)


def installed_path(path: Path) -> Path:
    """The path in the wheel of a file of the sources."""
    first, *rest = path.parts
    return Path(INSTALLED.get(first, first), *rest)


def requirement(name: str, project: Mapping[str, Any]) -> str:
    """A requirement with its bounds: ours in this version, others' as in pyproject.toml."""
    if name.partition("[")[0] in NAMES:
        return f"{name}=={project['version']}"
    optional: Mapping[str, list[str]] = project["optional-dependencies"]
    known: list[str] = [
        *project["dependencies"],
        *(each for some in optional.values() for each in some),
    ]
    for text in known:
        found = _NAME.match(text)
        if found and found[0].lower() == name.lower():
            return text
    raise BuildFailed(f"conf/distributions/table.py: pyproject.toml does not require '{name}'")


def pyproject(distribution: Distribution, project: Mapping[str, Any], tree: Path) -> str:
    """The text of the tree's pyproject.toml."""
    packages = sorted({path.parent.relative_to(tree).as_posix() for path in tree.glob("*/**/*.py")})
    required = [requirement(each, project) for each in (*distribution.ours, *distribution.needs)]
    lines = [
        "[build-system]", 'requires = ["setuptools>=77"]',
        'build-backend = "setuptools.build_meta"', "",
        "[project]", f"name = {quoted(distribution.name)}",
        f"description = {quoted(distribution.summary)}",
        f"dependencies = {quoted(required)}", 'license-files = ["LICENSE"]',
    ]  # fmt: skip
    same = ("version", "readme", "requires-python", "license", "authors", "keywords", "classifiers")
    lines += [f"{key} = {quoted(project[key])}" for key in same]
    if "urls" in project:
        lines.append(f"urls = {quoted(project['urls'])}")
    if distribution.has_command:
        lines += ["", "[project.scripts]"]
        lines += [f"{name} = {quoted(entry)}" for name, entry in project["scripts"].items()]
    if distribution.extras:
        lines += ["", "[project.optional-dependencies]"]
    for extra, names in distribution.extras.items():
        lines.append(f"{extra} = {quoted([requirement(each, project) for each in names])}")
    # All that the tree has is shipped: the choice was made when it was staged.
    dotted = [each.replace("/", ".") for each in packages]
    lines += ["", "[tool.setuptools]", f"packages = {quoted(dotted)}"]
    lines += ["", "[tool.setuptools.package-data]", '"*" = ["**/*"]']
    return "\n".join(lines) + "\n"


def quoted(value: object) -> str:
    """A value as TOML: a string, or a list or mapping of such."""
    if isinstance(value, list):
        return "[" + ", ".join(quoted(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {quoted(each)}" for key, each in value.items()) + " }"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _start(tree: Path, folder: Path) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, "-c", _SETUPTOOLS.format(folder)], cwd=tree, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
