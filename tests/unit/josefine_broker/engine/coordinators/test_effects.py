"""The execution of a coordinator's effects."""

from __future__ import annotations

import pytest

from josefine_broker.engine.coordinators.effects import execute_effects


class Numbers:
    """A coordinator whose effects are numbers, and which is its own host."""

    def __init__(self, *effects: int) -> None:
        self.is_working = False
        self.effects = list(effects)

    @property
    def coordinator(self) -> Numbers:
        return self

    def take_effects(self) -> list[int]:
        effects, self.effects = self.effects, []
        return effects


def test_effects_of_a_nested_call_follow_those_before_them() -> None:
    numbers, done = Numbers(1, 2), []

    def execute(effect: int) -> None:
        done.append(effect)
        if effect == 1:
            numbers.effects.append(3)
            assert execute_effects(numbers, execute) is False

    assert execute_effects(numbers, execute) is True
    assert done == [1, 2, 3]


def test_effects_are_executed_again_after_one_that_failed() -> None:
    numbers, done = Numbers(1), []

    def fail(effect: int) -> None:
        raise OSError(effect)

    with pytest.raises(OSError, match="1"):
        execute_effects(numbers, fail)
    numbers.effects.append(2)

    assert execute_effects(numbers, done.append) is True
    assert done == [2]
