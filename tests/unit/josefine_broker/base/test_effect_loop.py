"""The execution of effects in order."""

from __future__ import annotations

import pytest

from josefine_broker.base.effect_loop import EffectLoop


class Numbers:
    """A deciding part whose effects are numbers."""

    def __init__(self, *effects: int) -> None:
        self.effects = list(effects)

    def take(self) -> list[int]:
        effects, self.effects = self.effects, []
        return effects


def test_effects_of_a_nested_call_follow_those_before_them() -> None:
    loop, numbers, done = EffectLoop(), Numbers(1, 2), []

    def execute(effect: int) -> None:
        done.append(effect)
        if effect == 1:
            numbers.effects.append(3)
            assert loop.run(numbers.take, execute) is False

    assert loop.run(numbers.take, execute) is True
    assert done == [1, 2, 3]


def test_effects_are_executed_again_after_one_that_failed() -> None:
    loop, numbers, done = EffectLoop(), Numbers(1), []

    def fail(effect: int) -> None:
        raise OSError(effect)

    with pytest.raises(OSError, match="1"):
        loop.run(numbers.take, fail)
    numbers.effects.append(2)

    assert loop.run(numbers.take, done.append) is True
    assert done == [2]
