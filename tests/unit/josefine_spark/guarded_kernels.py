"""The loops of `kernels.py` and `encode_kernels.py` as plain Python that checks every index.

The same source, run without numba: arrays refuse an index outside of them, a negative one too, and
`copy_bytes` refuses a range. What trips here would read or write somewhere in the compiled loops.
"""

import importlib.util
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from numba import extending

from josefine_arrow.cache.kernels import import_kernels

LOOPS = {
    "josefine_arrow.batches.decode_kernels": (
        "scan",
        "end_offset",
        "decode",
        "count_headers",
        "decode_headers",
    ),
    "josefine_arrow.batches.encode_kernels": ("hash_partitions", "encode", "encode_stored"),
}
"""By module, those that are called from outside of it."""


class OutOfBoundsError(AssertionError):
    """An index that the compiled loops would have followed anywhere."""


class Guarded:
    """An array that refuses what numba does not look at."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape, self.size = array.shape, array.size

    def __getitem__(self, index: Any) -> Any:
        self._check(index)
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check(index)
        # As compiled code stores: what does not fit is cut, not refused.
        self.array[index] = np.int64(value).astype(self.array.dtype)

    def _check(self, index: Any) -> None:
        each = index if isinstance(index, tuple) else (index,)
        if not all(0 <= one < limit for one, limit in zip(each, self.shape, strict=True)):
            raise OutOfBoundsError(f"index {index} of an array of shape {self.shape}")


def copy_bytes(target: Guarded, at: int, source: Guarded, start: int, size: int) -> None:
    if size < 0 or at < 0 or start < 0:
        raise OutOfBoundsError(f"{size} bytes from {start} to {at}")
    if at + size > target.size or start + size > source.size:
        raise OutOfBoundsError(f"{size} bytes from {start} to {at} of {target.size}")
    target.array[at : at + size] = source.array[start : start + size]


def guarded_kernels(
    source: str | None = None, module: str = "josefine_arrow.batches.decode_kernels"
) -> SimpleNamespace:
    """What `import_kernels` gives, guarded; `source` stands for the module's own (for mutants)."""
    plain = without_numba(source, module)
    names = {name: getattr(plain, name) for name in dir(plain) if name.isupper()}
    loops = {name: _guarded(getattr(plain, name)) for name in LOOPS[module]}
    return SimpleNamespace(**names, **loops)


def kernels_source(module: str = "josefine_arrow.batches.decode_kernels") -> str:
    with open(import_kernels(module).__file__, encoding="utf-8") as file:
        return file.read()


def without_numba(source: str | None, name: str) -> ModuleType:
    path = import_kernels(name).__file__
    spec = importlib.util.spec_from_file_location("guarded_kernels_of_josefine", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba, "njit", lambda **options: lambda function: function)
        patch.setattr(extending, "intrinsic", lambda function: copy_bytes)
        exec(compile(source or kernels_source(name), path, "exec"), module.__dict__)
    module.__dict__["copy_bytes"] = copy_bytes  # also where it is imported from the other module
    return module


def _guard(argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple(_guard(one) for one in argument)
    return Guarded(argument) if isinstance(argument, np.ndarray) else argument


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        given = [_guard(one) for one in arguments]
        with np.errstate(over="ignore"):  # 64-bit numbers wrap, as compiled
            return function(*given)

    return call
