"""The steps of a release: each is refused where what it would publish is not fit for it."""

import subprocess
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from conf.distributions import release as steps
from conf.distributions.licences import LICENCES, required
from conf.distributions.release import (
    PLACES,
    ReleaseError,
    check_changelog,
    check_version,
    main,
    with_version,
    wrong_metadata,
)
from tests.unit.test_style import ROOT

CHANGELOG = """# Changelog

## Unreleased

## 0.2.0 — 2026-12-01

### Added

- Brokers: something.

## 0.1.1 — 2026-11-30

## 0.1.0 — 2026-11-29

- The first one.
"""
METADATA = b"""Metadata-Version: 2.4
Name: josefine-spark
Version: 0.2.0
Summary: A connector
License-Expression: MIT
Classifier: Typing :: Typed
Requires-Python: >=3.11
Description-Content-Type: text/markdown
Requires-Dist: josefine-client[arrow]==0.2.0

# Josefine
"""


@pytest.mark.parametrize("version", ["0.2.0", "1.0.0rc1", "2.0.1.post1"])
def test_versions_as_pip_spells_them_are_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("newest", "'newest' is not a version: write 1.2.3, or 1.2.3rc1"),
        ("v0.2.0", "'v0.2.0' is not a version to publish: write 0.2.0"),
        ("0.2.0-rc1", "'0.2.0-rc1' is not a version to publish: write 0.2.0rc1"),
        ("0.2.0+mine", "'0.2.0+mine' is not a version to publish: write 0.2.0"),
    ],
)
def test_other_versions_are_refused_with_the_right_spelling(version: str, message: str) -> None:
    with pytest.raises(ReleaseError) as failure:
        check_version(version)

    assert str(failure.value) == message


def test_a_release_needs_a_section_of_the_changelog_with_an_entry() -> None:
    check_changelog(CHANGELOG, "0.2.0")
    check_changelog(CHANGELOG, "0.1.0")

    with pytest.raises(ReleaseError, match=r"no section '## 0\.3\.0 — DATE': rename 'Unreleased'"):
        check_changelog(CHANGELOG, "0.3.0")
    with pytest.raises(ReleaseError, match=r"the section '## 0\.1\.1' has no entry"):
        check_changelog(CHANGELOG, "0.1.1")
    with pytest.raises(ReleaseError, match="no section"):
        check_changelog(CHANGELOG, "0.2")


def test_all_places_have_the_same_version() -> None:
    texts = {name: (ROOT / name).read_text() for name in PLACES}
    version = tomllib.loads(texts["pyproject.toml"])["project"]["version"]

    assert {name: with_version(text, version, name) for name, text in texts.items()} == texts


def test_the_version_is_written_in_its_line_and_nowhere_else() -> None:
    text = 'name = "josefine"\nversion = "0.1.0"\n[tool.x]\nversion = "9"\n'

    assert with_version(text, "0.2.0") == text.replace("0.1.0", "0.2.0")
    with pytest.raises(ReleaseError, match="has no line"):
        with_version("name = 'x'\n", "0.2.0")


def test_metadata_that_an_index_takes_passes() -> None:
    assert list(wrong_metadata("a.whl", METADATA, "0.2.0")) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (b"Version: 0.2.0", b"Version: 0.1.0", "its version is 0.1.0, not 0.2.0"),
        (b"text/markdown", b"text/plain", "it has no description in Markdown"),
        (b"Summary: A connector\n", b"", "its metadata has no summary"),
        (b"License-Expression: MIT\n", b"", "its metadata has no license-expression"),
        (b"==0.2.0", b">=0.1", "it requires 'josefine-client[arrow]>=0.1', not that of this"),
        (b"MIT", b"My own", "'My own' is invalid for 'license-expression'"),
    ],
)
def test_metadata_that_lacks_something_names_it(old: bytes, new: bytes, fault: str) -> None:
    faults = list(wrong_metadata("a.whl", METADATA.replace(old, new), "0.2.0"))

    assert [each for each in faults if each.startswith("a.whl: ") and fault in each]


def test_two_wheels_that_own_one_file_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as archive:
            archive.writestr(f"{name}.dist-info/METADATA", METADATA)
            archive.writestr("josefine_broker/base/ids.py", "")

    faults = list(steps.wrong(sorted(tmp_path.glob("*.whl")), "0.2.0"))

    assert "josefine_broker/base/ids.py: two wheels own it" in faults
    assert "a.whl: it has no licence" in faults
    assert "2 wheels and 0 sources of 6 projects" in faults


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A committed tree with a changelog and a version of its own."""
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    for name, key in PLACES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f'{key} = "0.1.0"\n')
    user = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for arguments in (("init", "-q"), ("add", "."), (*user, "commit", "-q", "-m", "Start")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def test_a_tag_is_refused_before_anything_is_written_unless_the_version_is_committed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["0.2.0", "--tag"], repository)

    assert code == 1
    assert capsys.readouterr().err == (
        "error: the tree differs from the commit, and v0.2.0 would not be what is built: "
        "./build.sh release 0.2.0, commit, then the same with --tag\n"
    )
    assert '"0.1.0"' in (repository / "pyproject.toml").read_text()


def test_a_tag_that_is_there_is_not_moved(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "tag", "v0.1.0"], cwd=repository, check=True)

    assert main(["0.1.0", "--tag"], repository) == 1
    assert "the tag v0.1.0 is there already" in capsys.readouterr().err


def test_a_release_without_a_version_prints_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == "usage: ./build.sh release VERSION [--tag]\n"


def test_every_requirement_has_a_licence_and_every_licence_a_requirement() -> None:
    assert required() == set(LICENCES)


@pytest.mark.parametrize("name", sorted(LICENCES))
def test_a_licence_of_the_table_is_that_of_the_package(name: str) -> None:
    """As far as the package states it as an SPDX expression; older ones have words of their own."""
    try:
        stated = metadata.metadata(name)["License-Expression"]
    except metadata.PackageNotFoundError:
        pytest.skip("not installed")
    if stated:
        assert LICENCES[name] == stated
