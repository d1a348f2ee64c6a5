"""The loops that read JSON as plain Python that checks every index, as `guarded_kernels.py`.

Where the compiled loops are given addresses these are given arrays, and what reads and writes
memory (`memory_access.py`) is done by checked stand-ins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from josefine_arrow.formats.json import decoder
from josefine_spark.read.json_rows import JsonRows
from tests.unit.josefine_spark.guarded_kernels import OutOfBoundsError, without_numba

MODULES = (
    "josefine_arrow.formats.json.text_kernels",
    "josefine_arrow.formats.json.number_kernels",
    "josefine_arrow.formats.json.nested_kernels",
    "josefine_arrow.formats.json.kernels",
)
LOOPS = ("parse", "gather", "count", "split")


class Memory:
    """An array as memory from its first byte on."""

    def __init__(self, array: Any) -> None:
        self.array = array.reshape(-1)

    def at(self, kind: Any, position: Any) -> Any:
        seen = self.array.view(kind)
        if not 0 <= position < seen.size:
            raise OutOfBoundsError(f"{np.dtype(kind)} {position} of {seen.size}")
        return seen

    def read(self, kind: Any, position: Any) -> Any:
        return np.int64(self.at(kind, position)[position])

    def write(self, kind: Any, position: Any, value: Any) -> None:
        seen = self.at(kind, position)
        seen[position] = np.array(value).astype(kind)


def move_bytes(target: Memory, at: int, source: Memory, start: int, size: int) -> None:
    if size:
        for memory, first in ((target, at), (source, start)):
            memory.at(np.uint8, first)
            memory.at(np.uint8, first + size - 1)
        target.array.view(np.uint8)[at : at + size] = source.array[start : start + size]


ACCESS: dict[str, Any] = {
    "byte_at": lambda memory, at: int(memory.read(np.uint8, at)),
    "half_at": lambda memory, at: memory.read(np.int32, at),
    "word_at": lambda memory, at: memory.read(np.int64, at),
    "cell_at": lambda memory, row, width, at: memory.read(np.int64, row * width + at),
    "put_byte": lambda memory, at, value: memory.write(np.uint8, at, value),
    "put_half": lambda memory, at, value: memory.write(np.int32, at, value),
    "put_word": lambda memory, at, value: memory.write(np.int64, at, value),
    "put_double": lambda memory, at, value: memory.write(np.float64, at, value),
    "put_cell": lambda memory, row, width, at, value: memory.write(
        np.int64, row * width + at, value
    ),
    "move_bytes": move_bytes,
}


def guarded_json(sources: Mapping[str, str] | None = None) -> SimpleNamespace:
    """What `import_kernels` gives of `json_kernels`; `sources` for the modules' own (mutants)."""
    loops: dict[str, Any] = {}
    for name in MODULES:
        module = without_numba((sources or {}).get(name), name)
        own = [key for key, item in vars(module).items() if callable(item)]
        # Looked up when they are called: what is imported from one another, and what is compiled.
        vars(module).update({key: loops[key] for key in own if key in loops})
        vars(module).update({key: ACCESS[key] for key in own if key in ACCESS})
        vars(module)["math"] = SimpleNamespace(ldexp=lambda x, n: math.ldexp(x, int(n)))
        loops |= {key: getattr(module, key) for key in own}
    names = {key: getattr(module, key) for key in dir(module) if key.isupper()}
    return SimpleNamespace(**names, **{name: _quiet(loops[name]) for name in LOOPS})


def guarded_csv(source: str | None = None) -> SimpleNamespace:
    """The same of the kernel for CSV."""
    module = without_numba(source, "josefine_arrow.formats.csv.kernels")
    vars(module).update({key: ACCESS[key] for key in vars(module) if key in ACCESS})
    names = {key: getattr(module, key) for key in dir(module) if key.isupper()}
    return SimpleNamespace(**names, to_objects=_quiet(module.to_objects))


def _quiet(loop: Any) -> Any:
    def call(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):  # 64-bit numbers wrap, as compiled
            return loop(*arguments)

    return call


def read_guarded(schema: Any, values: Any, kernels: SimpleNamespace) -> Any:
    """What `JsonRows.plain` gives with these loops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "address", Memory)
        patch.setattr(decoder, "loops", lambda: kernels)
        return JsonRows(schema).plain(values)
