"""The steps of a release: `./build.sh release VERSION [--tag]`.

The version is written into the files of PLACES, the changelog must have a section for it, and the
wheels and source distributions of `dist/` are built and checked. With --tag the commit is tagged,
which needs a clean tree: then what is tagged is what was built.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.metadata import Metadata
from packaging.version import InvalidVersion, Version

from conf.distributions.build import ROOT, BuildFailed, build
from conf.distributions.licences import LICENCES, required
from conf.distributions.table import DISTRIBUTIONS

USAGE = "usage: ./build.sh release VERSION [--tag]"
FOLDER = "dist"
PLACES = {"pyproject.toml": "version", "josefine_broker/client/connection.py": "SOFTWARE_VERSION"}
"""File → the name that has the version there: the second one is what a client sends (KIP-511)."""


class ReleaseError(Exception):
    """A release that cannot be made, with what to do."""


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Make the release; prints what was made."""
    given = [each for each in arguments if each != "--tag"]
    if len(given) != 1 or given[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        release(given[0], root, tagged="--tag" in arguments)
    except (ReleaseError, BuildFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def release(version: str, root: Path, *, tagged: bool) -> None:
    """All steps, the cheap checks first: nothing is written before they passed."""
    check_version(version)
    check_changelog((root / "CHANGELOG.md").read_text("utf-8"), version)
    texts = {name: (root / name).read_text("utf-8") for name in PLACES}
    changed = {
        name: new
        for name, text in texts.items()
        if (new := with_version(text, version, name)) != text
    }
    if tagged:
        _check_can_tag(root, version, is_written=not changed)
    for name, new in changed.items():
        (root / name).write_text(new, "utf-8")
        print(f"{name}: version {version}; commit it before --tag")
    folder = root / FOLDER
    for old in (*folder.glob("josefine*.whl"), *folder.glob("josefine*.tar.gz")):
        old.unlink()
    built = build(root, folder)
    faults = [*wrong(built, version), *without_licence()]
    if faults:
        raise ReleaseError("\n  ".join(["the distributions are not fit to be published:", *faults]))
    for path in built:
        print(f"{path.relative_to(root)}  {path.stat().st_size // 1024} KiB")
    if tagged:
        _git(root, "tag", "-a", f"v{version}", "-m", f"josefine {version}")
        print(f"tagged v{version}; push it with: git push origin v{version}")


def check_version(version: str) -> None:
    """Raise ReleaseError unless it is a version as pip spells it."""
    try:
        normal = str(Version(version))
    except InvalidVersion:
        raise ReleaseError(f"'{version}' is not a version: write 1.2.3, or 1.2.3rc1") from None
    public = Version(normal).public
    if version != public:
        raise ReleaseError(f"'{version}' is not a version to publish: write {public}")


def check_changelog(text: str, version: str) -> None:
    """Raise ReleaseError unless the changelog has a section of the version with an entry."""
    lines = text.splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith(f"## {version} ")]
    if not heads:
        raise ReleaseError(
            f"CHANGELOG.md has no section '## {version} — DATE': "
            "rename 'Unreleased' to it, and start an empty one above"
        )
    section: list[str] = []
    for line in lines[heads[0] + 1 :]:
        if line.startswith("## "):
            break
        section.append(line)
    if not any(line.startswith("- ") for line in section):
        raise ReleaseError(f"CHANGELOG.md: the section '## {version}' has no entry: write one")


def with_version(text: str, version: str, file: str = "pyproject.toml") -> str:
    """The text of a file of PLACES with this version."""
    key = PLACES[file]
    line = re.compile(rf'^{key} = "[^"]*"$', re.MULTILINE)
    new, count = line.subn(f'{key} = "{version}"', text, count=1)
    if not count:
        raise ReleaseError(f"{file} has no line '{key} = \"...\"': write one")
    return new


def wrong(built: Sequence[Path], version: str) -> Iterator[str]:
    """What is wrong with the files: their number, their metadata, files that two of them own."""
    wheels = [path for path in built if path.suffix == ".whl"]
    sdists = [path for path in built if path.suffix == ".gz"]
    if not len(wheels) == len(sdists) == len(DISTRIBUTIONS):
        yield f"{len(wheels)} wheels and {len(sdists)} sources of {len(DISTRIBUTIONS)} projects"
    owners: Counter[str] = Counter()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (name,) = (each for each in names if each.endswith(".dist-info/METADATA"))
            text = archive.read(name)
        owners.update(each for each in names if ".dist-info/" not in each)
        yield from wrong_metadata(wheel.name, text, version)
        if not any(".dist-info/licenses/" in each for each in names):
            yield f"{wheel.name}: it has no licence"
    for sdist in sdists:
        with tarfile.open(sdist) as tar:
            (member,) = (each for each in tar if re.fullmatch(r"[^/]+/PKG-INFO", each.name))
            content = tar.extractfile(member)
            assert content is not None
            yield from wrong_metadata(sdist.name, content.read(), version)
    yield from (f"{name}: two wheels own it" for name, count in owners.items() if count > 1)


def wrong_metadata(name: str, text: bytes, version: str) -> Iterator[str]:
    """What an index or a reader would miss in the metadata of a file."""
    try:
        metadata = Metadata.from_email(text, validate=True)
    except ExceptionGroup as group:
        yield from (f"{name}: {each}" for each in group.exceptions)
        return
    if str(metadata.version) != version:
        yield f"{name}: its version is {metadata.version}, not {version}"
    if metadata.description_content_type != "text/markdown" or not metadata.description:
        yield f"{name}: it has no description in Markdown"
    for field in ("summary", "license_expression", "requires_python", "classifiers"):
        if not getattr(metadata, field):
            yield f"{name}: its metadata has no {field.replace('_', '-')}"
    for need in metadata.requires_dist or ():
        if need.name.startswith("josefine") and str(need.specifier) != f"=={version}":
            yield f"{name}: it requires '{need}', not that of this version"


def without_licence() -> Iterator[str]:
    """Requirements that the table of licences does not have."""
    missing = sorted(required() - LICENCES.keys())
    yield from (f"distributions/licences.py: '{name}' has no licence: add it" for name in missing)


def _check_can_tag(root: Path, version: str, *, is_written: bool) -> None:
    if not is_written or _git(root, "status", "--porcelain", "--untracked-files=no"):
        raise ReleaseError(
            f"the tree differs from the commit, and v{version} would not be what is built: "
            f"./build.sh release {version}, commit, then the same with --tag"
        )
    if _git(root, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} is there already: choose the next version")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
