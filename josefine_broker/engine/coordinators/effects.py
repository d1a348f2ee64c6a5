"""The execution of the effects of the group and transaction coordinators, for their hosts."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Coordinator(Protocol):
    """A coordinator that decides, and leaves the work to its host."""

    def take_effects(self) -> Sequence[Any]:
        """The effects since the last call, in order."""
        ...


class Hosted(Protocol):
    """A coordinator in its host, and whether its effects are being executed."""

    is_working: bool

    @property
    def coordinator(self) -> Coordinator: ...


def execute_effects(hosted: Hosted, execute: Callable[[Any], None]) -> bool:
    """Execute effects until there are none. A nested call returns False at once: the outermost one
    continues with its effects, so they stay in order."""
    if hosted.is_working:
        return False
    hosted.is_working = True
    try:
        while effects := hosted.coordinator.take_effects():
            for effect in effects:
                execute(effect)
    finally:
        hosted.is_working = False
    return True
