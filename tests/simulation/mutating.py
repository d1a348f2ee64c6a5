"""Putting one wrong line into a function, for the proof that the checkers can fail."""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, Protocol

__all__ = ["Breaks", "mutated"]


class Breaks(Protocol):
    """A mutant, as far as it is put in place here."""

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def old(self) -> str: ...

    @property
    def new(self) -> str: ...


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
