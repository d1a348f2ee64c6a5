"""What files say of themselves at their top, where neither a contract nor another test holds it.

Which modules may import what is in pyproject.toml; what a handler or a log promises is proved
beside it. Here is what can be seen in the text of the tree and in its types.
"""

import ast
import dataclasses
import importlib
import importlib.util
import re
import sys
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest

from josefine_broker.base import limits
from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire.apis import APIS, FETCH, PRODUCE, ApiSpec
from tests.unit.test_style import ROOT, SOURCES

FILE = re.compile(r"(?<![\w/.*<>{}-])((?:[\w.-]+/)*[a-z_]\w*\.py)\b")
NAME = re.compile(r"`((?:[a-z_]+\.)+\w+)(?:\(\))?`")
"""`a.module.Name`, said of a package of ours or of a part of the broker."""

PACKAGES_OF_OURS = {path.relative_to(ROOT).parts[0] for path in SOURCES}
PARTS_OF_THE_BROKER = {
    path.relative_to(ROOT / "josefine_broker").parts[0].removesuffix(".py")
    for path in SOURCES
    if path.is_relative_to(ROOT / "josefine_broker")
}

SHAPES = [
    pytest.param(spec, id=spec.name)
    for key, spec in APIS.items()
    if key not in (PRODUCE, FETCH) and not spec.is_declined
]
PLAIN = {int, float, str, bytes, bool, UUID, type(None), ErrorCode}
STARTS_A_TASK = {"create_task", "ensure_future", "TaskGroup", "run_coroutine_threadsafe", "gather"}


def test_files_and_names_that_a_file_speaks_of_exist() -> None:
    gone = [(file, word) for file in SOURCES for word in not_there(file.read_text(), file)]

    assert [f"{file.relative_to(ROOT)} speaks of {word}" for file, word in gone] == []


def test_a_word_for_what_is_gone_is_found() -> None:
    file = ROOT / "josefine_broker/api/shared/topics.py"
    there = "`metadata/image.py`, raft/node.py `engine.ports.WorkPort` `raft.Node`, `a.b.C`"
    gone = "core/gone.py, gone.py `engine.ports.GonePort` `raft.Gone` `host.gone.X`"

    assert list(not_there(there, file)) == []
    assert len(list(not_there(gone, file))) == 5


def test_raft_imports_the_standard_library_alone() -> None:
    roots = {name.split(".")[0] for file in (ROOT / "raft").glob("*.py") for name in imported(file)}

    assert roots - sys.stdlib_module_names == {"raft"}


def test_a_limit_in_base_is_kept_by_several_modules() -> None:
    names = [name for name in vars(limits) if name.isupper()]
    users = {name: [file for file in SOURCES if name in words(file)] for name in names}

    assert names
    assert {name: len(files) for name, files in users.items() if len(files) < 3} == {}  # and itself


def test_the_asyncio_client_starts_no_task() -> None:
    files = ROOT.glob("josefine_broker/client/io_asyncio*.py")

    assert [file.name for file in files if words(file) & STARTS_A_TASK] == []


@pytest.mark.parametrize("spec", SHAPES)
def test_a_shape_is_of_plain_values_and_its_file_names_key_and_version(spec: ApiSpec) -> None:
    kinds = {kind for shape in (spec.request, spec.response) for kind in plain_kinds(shape)}
    header = sys.modules[spec.request.__module__].__doc__ or ""

    assert kinds <= PLAIN
    assert sys.modules[spec.response.__module__].__doc__ == header
    newest = f"in the one shape that handlers see: version {spec.max_version}"
    assert header.startswith(f"{spec.name} (key {spec.key}) {newest}")


@pytest.mark.parametrize("spec", SHAPES)
def test_a_duration_has_its_unit_in_its_name(spec: ApiSpec) -> None:
    durations = [
        field.name
        for shape in (spec.request, spec.response)
        for field in dataclasses.fields(shape)
        if any(word in field.name for word in ("timeout", "throttle", "delay", "wait", "interval"))
    ]

    assert [name for name in durations if not name.endswith("_ms")] == []


def not_there(text: str, file: Path) -> Iterator[str]:
    """Files, from here upwards or within the broker, and names in our packages."""
    folders = [*file.parents, ROOT / "josefine_broker", ROOT / "josefine_broker/engine"]
    for word in FILE.findall(text):
        if not any((folder / word).exists() for folder in folders):
            yield word
    for word in NAME.findall(text):
        first = word.split(".")[0]
        of_broker = first in PARTS_OF_THE_BROKER and ROOT / "josefine_broker" in file.parents
        full = f"josefine_broker.{word}" if of_broker else word
        is_ours = (of_broker or first in PACKAGES_OF_OURS) and not word.endswith(".py")
        if is_ours and not is_defined(full):
            yield word


@cache
def is_defined(name: str) -> bool:
    """`package.module.Name.attribute`, or any beginning of that."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for at, part in enumerate(parts[1:], 1):
        if hasattr(found, "__path__") and importlib.util.find_spec(".".join(parts[: at + 1])):
            found = importlib.import_module(".".join(parts[: at + 1]))
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            return part in getattr(found, "__annotations__", {})
    return True


def plain_kinds(hint: Any) -> Iterator[Any]:
    """Of every field, down through dataclasses, tuples and unions."""
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        for field in dataclasses.fields(hint):
            yield from plain_kinds(hints[field.name])
    elif get_origin(hint) in (tuple, Union, types.UnionType):
        for each in get_args(hint):
            if each is not Ellipsis:
                yield from plain_kinds(each)
    else:
        yield hint


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def words(file: Path) -> set[str]:
    """Names and attributes in it; not what is said in comments and docstrings."""
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Name | ast.Attribute)
    }


@cache
def tree(file: Path) -> ast.AST:
    return ast.parse(file.read_text())
