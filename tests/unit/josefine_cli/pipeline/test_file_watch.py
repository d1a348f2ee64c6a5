"""The watch of `josefine pipeline dev`: which looks at the files start a round."""

from __future__ import annotations

from pathlib import Path

from josefine_cli.pipeline.file_watch import Signature, Watch, signature_of, watch

FILE = Path("a.yaml")


def at(version: int) -> Signature:
    return {FILE: (version, 1, 1)}


def rounds_of(looks: list[Signature]) -> list[int]:
    """After which looks a round starts; the first look is that of round 1."""
    watched = Watch(looks[0])
    return [number for number, each in enumerate(looks[1:], 1) if watched.is_saved(each)]


def test_a_save_counts_once_two_looks_see_the_same() -> None:
    assert rounds_of([at(1), at(1), at(2), at(3), at(3), at(3), at(4), at(4)]) == [4, 7]


def test_a_file_that_is_missing_for_a_moment_is_not_a_complete_save() -> None:
    assert rounds_of([at(1), {FILE: None}, {FILE: None}, at(2), at(2)]) == [4]


def test_a_file_saved_and_taken_back_between_two_rounds_starts_none() -> None:
    assert rounds_of([at(1), at(2), at(1), at(1)]) == []


def test_a_save_during_a_round_starts_another_one_and_none_is_lost() -> None:
    version, done = [1], []

    def do(number: int) -> None:
        done.append((number, version[0]))
        if number < 3:
            version[0] += 1

    pauses = iter([True] * 10 + [False])
    watch(lambda: at(version[0]), lambda: next(pauses), do)

    assert done == [(1, 1), (2, 2), (3, 3)]


def test_files_that_the_text_names_are_watched_with_it(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    for name in ("schemas/a.ddl", "f.py", "other.ddl"):
        (tmp_path / name).write_text("x")
    file = tmp_path / "a.yaml"
    file.write_text("{ schema: 'schemas/a.ddl', python: f.py:clean, path: absent.ddl, b: 1.5 }")

    found = signature_of(file)
    (tmp_path / "f.py").write_text("longer")

    assert sorted(each.relative_to(tmp_path).as_posix() for each in found) == [
        "a.yaml",
        "f.py",
        "schemas/a.ddl",
    ]
    assert signature_of(file) != found
    assert signature_of(tmp_path / "gone.yaml") == {tmp_path / "gone.yaml": None}
