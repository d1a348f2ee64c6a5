"""A transform's function, as far as it is known without running its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.config.python_function import function_of
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.decode_fingerprint import judgement
from pipelines.lint.lint import lint_file
from pipelines.model.pipeline import Pipeline
from pipelines.model.plan import compile_plan
from tests.unit.pipelines.config.sections import said as problems_of
from tests.unit.pipelines.config.sections import section
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD

SQL = "sql: select value.* from raw"
CHECK = (
    "checks: { c: { on: clean, expr: id > 0, action: dead_letter } }\n"
    "dead_letter: { type: delta, path: /d }\n"
)
FILE = """\
from functools import partial

def clean(raw, *, most=3):
    return raw

def all_of(*frames):
    return frames[0]

def two(one, other):
    return one

def named(one, *, by):
    return one

tidy = partial(two, None)
"""


def said(folder: Path, said: str, text: str = FILE) -> str:
    (folder / "own.py").write_text(text)
    file = folder / "f.yaml"
    file.write_text(GOOD.replace(SQL, f"python: {said}") + CHECK)
    return str(file)


def problems(file: str) -> list[str]:
    return [f"{p.path}: {p.message}".replace(file[:-6], "") for p in lint_file(file, {}).problems]


@pytest.mark.parametrize("name", ["clean", "all_of", "tidy", "partial"])
def test_a_function_that_takes_the_inputs_is_good_and_nothing_is_run(tmp_path, name):
    file = said(tmp_path, f"own.py:{name}", FILE + "\nraise SystemExit(1)\n")

    assert problems(file) == []
    assert complaints(Path(file).read_text()) == []
    function = read_pipeline(file, {}).transforms["clean"].function
    assert function is not None
    assert (function.file, function.name) == (str(tmp_path / "own.py"), name)


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ("own.py:claen", "own.py: no function `claen`; did you mean `clean`?"),
        ("own.py:x", "own.py: no function `x`; it has `clean`, `all_of`, `two`, `named`"),
        ("own.py:two", "own.py: `two` in line 9 takes 2 of frames; `inputs` has 1"),
        ("own.py:named", "own.py: `named` must be given `by` by its name; inputs have none"),
        ("other.py:clean", "other.py: No such file or directory"),
        (
            "own.py",
            "expected FILE.py:FUNCTION, the file relative to this one; found `own.py`",
        ),
    ],
)
def test_what_is_wrong_with_a_function_is_told_without_running_it(tmp_path, asked, wrong):
    assert problems(said(tmp_path, asked)) == [f"transforms.clean.python: {wrong}"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("x = 1\n", "no function `clean`; it has none"),
        ("x = 1\ndef clean(raw:\n", "'(' was never closed"),
        ("x = 1\0", "null bytes"),
    ],
)
def test_a_file_that_is_no_python_is_told_with_its_line(tmp_path, text, wrong):
    (told,) = problems(said(tmp_path, "own.py:clean", text))

    assert told.startswith("transforms.clean.python: own.py")
    assert wrong in told or (wrong == "null bytes" and "not UTF-8 text" in told)


def test_a_changed_file_is_another_judgement(tmp_path):
    def of(text: str) -> str:
        pipeline: Pipeline = read_pipeline(said(tmp_path, "own.py:clean", text), {})
        return judgement(compile_plan(pipeline).sources["raw"])

    first = of(FILE)
    assert first == of(FILE)
    assert first != of(FILE.replace("return raw", "return raw.where('id > 1')"))


@pytest.mark.parametrize(
    ("signature", "inputs", "is_good"),
    [
        ("a", 1, True), ("a", 2, False), ("a, b=None", 1, True), ("a, b=None", 2, True),
        ("a, b=None", 3, False), ("a, *more", 9, True), ("a, b, *more", 1, False),
        ("a, /, b", 2, True), ("a, *, c=1", 1, True), ("a, *, c", 1, False), ("", 0, True),
        ("**named", 1, False),
    ],
)  # fmt: skip
def test_a_function_takes_as_many_frames_as_there_are_inputs(tmp_path, signature, inputs, is_good):
    file = tmp_path / "own.py"
    file.write_text(f"def f({signature}): return a\n")
    reader = section(f"python: {file}:f", "transform")

    found = function_of(reader, tuple("abcdefghi"[:inputs]))

    assert (problems_of(reader) == []) is is_good
    assert bool(found.source) is is_good


@pytest.mark.parametrize(
    "bound",
    ["from m import f", "import f.g", "import m as f", "f = 1", "if 1:\n    f = 2",
     "for f in (): pass", "with open('x') as f: pass"],
)  # fmt: skip
def test_a_name_that_is_bound_otherwise_is_left_to_the_import(tmp_path, bound):
    file = tmp_path / "own.py"
    file.write_text(bound + "\n")
    reader = section(f"python: {file}:f", "transform")

    assert function_of(reader, ("a",)).source == bound + "\n"
    assert problems_of(reader) == []
