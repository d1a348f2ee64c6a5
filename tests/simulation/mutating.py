"""Putting one wrong line into a function, for the proof that the checkers can fail."""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Protocol

__all__ = ["Breaks", "Mutant", "mutated"]


class Breaks(Protocol):
    """A mutant, as far as it is put in place here."""

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def old(self) -> str: ...

    @property
    def new(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One wrong line. `seed`: where the search starts, a run that noticed when it was last looked
    for."""

    breaks: str
    function: Callable[..., Any]
    old: str
    new: str
    seed: int = 0


@contextmanager
def mutated(mutant: Breaks) -> Iterator[None]:
    """The function with the wrong line in place, everywhere it is referred to."""
    function = mutant.function
    assert isinstance(function, FunctionType)
    source = textwrap.dedent(inspect.getsource(function)).replace("@property\n", "")
    assert source.count(mutant.old) == 1, f"{mutant.old!r} is not in the source any more"
    compiled = compile(source.replace(mutant.old, mutant.new), function.__name__, "exec")
    parts = (part for part in compiled.co_consts if isinstance(part, CodeType))
    (code,) = (part for part in parts if part.co_name == function.__name__)
    good, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = good
