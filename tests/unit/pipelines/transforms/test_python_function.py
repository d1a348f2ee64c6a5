"""A user's function: imported once, its errors with the line of its file."""

from __future__ import annotations

import pickle
import sys

import pytest

from pipelines.base.errors import ConfigError, Place
from pipelines.model.pipeline import Function, Placed, Transform
from pipelines.transforms.python_function import module_of, rows_of

pytest.importorskip("pyspark")
PLACE = Place(file="f.yaml", line=9, column=5)
FILE = """\
made = []

def boom(rows):
    return inner(rows)

def inner(rows):
    raise ValueError("no such column. Did you mean x?")

def nothing(rows):
    made.append(rows)

def number(rows):
    return 5

def silent(rows):
    assert False
"""


def refused(name: str, source: str = FILE) -> str:
    function = Function(file="/own.py", name=name, source=source)
    said = Placed(text=f"own.py:{name}", place=PLACE, path="transforms.t.python")
    transform = Transform(name="t", place=PLACE, inputs=("a",), said=said, function=function)
    with pytest.raises(ConfigError) as caught:
        rows_of(transform, ["frame"])
    return str(caught.value).removeprefix("f.yaml:9:5: transforms.t.python: ")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("boom", "/own.py:7: ValueError: no such column. Did you mean x?"),
        ("silent", "/own.py:16: AssertionError"),
        ("nothing", "`nothing` gave nothing; expected a DataFrame"),
        ("number", "`number` gave `int`; expected a DataFrame"),
    ],
)
def test_an_error_names_the_line_of_the_users_file(name, why):
    assert refused(name) == why


def test_an_error_of_the_import_is_one_of_the_file_and_leaves_no_module():
    before = set(sys.modules)

    assert refused("f", "x = 1\nimport no_such_module\n").startswith(
        "/own.py:2: ModuleNotFoundError: No module named 'no_such_module'"
    )
    assert not [name for name in set(sys.modules) - before if name.startswith("own_")]


def test_a_text_is_imported_once_and_another_text_is_another_module():
    one = Function(file="/own.py", name="nothing", source=FILE)
    same = Function(file="/own.py", name="nothing", source=FILE)
    other = Function(file="/own.py", name="nothing", source=FILE + "\n")

    assert module_of(one) is module_of(same)
    assert module_of(one) is not module_of(other)
    assert module_of(one).__name__ != module_of(other).__name__


def test_a_function_of_the_file_is_sent_to_executors_that_lack_the_file():
    from pyspark import cloudpickle

    module = module_of(Function(file="/own.py", name="number", source=FILE + "\n# sent\n"))
    sent = cloudpickle.dumps(module.number)
    del sys.modules[module.__name__]

    assert pickle.loads(sent)(None) == 5
