"""The execution of what a deciding part has decided, by the host that does the work for it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class EffectLoop:
    """Executes effects in their order, also those that come from executing one. Mutable."""

    __slots__ = ("_is_running",)

    def __init__(self) -> None:
        self._is_running = False

    def run(self, take: Callable[[], Sequence[T]], execute: Callable[[T], None]) -> bool:
        """Execute what `take` returns until that is nothing. A nested call returns False at once:
        the outermost one continues with its effects, so that none overtakes an earlier one."""
        if self._is_running:
            return False
        self._is_running = True
        try:
            while effects := take():
                for effect in effects:
                    execute(effect)
        finally:
            self._is_running = False
        return True
