"""What a virtual client of a coordinator has: it finds the broker that keeps its key, and asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire import apis
from josefine_broker.wire.entities import find_coordinator
from tests.simulation.cluster.clients import Client

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["AGAIN_MS", "CoordinatedClient"]

FIND = apis.FIND_COORDINATOR, 6
AGAIN_MS = 60


class CoordinatedClient(Client):
    """One process."""

    key_type = 0
    """Of groups."""

    def __init__(self, world: World, node: int, rng: Random, key: str) -> None:
        super().__init__(world, node, rng)
        self.key = key
        self.coordinator = -1
        self.life = 0
        """What was asked or planned in one before it comes to nothing."""

    def soon(self, event: Callable[[], None], delay_ms: int = AGAIN_MS) -> None:
        self.after_ms(delay_ms, self._of_this_life(event))

    def _of_this_life(self, event: Callable[..., None]) -> Callable[..., None]:
        life = self.life
        return lambda *given: event(*given) if life == self.life else None

    def ask_coordinator(
        self, api: tuple[int, int], request: Any, then: Callable[[Any], None], timeout_ms: int
    ) -> None:
        self.ask(self.coordinator, api, request, timeout_ms, self._of_this_life(then))

    def find(self, then: Callable[[], None]) -> None:
        """Who coordinates the key; asked again until somebody says."""
        request = find_coordinator.FindCoordinatorRequest(
            key_type=self.key_type, coordinator_keys=(self.key,)
        )

        def found(answer: find_coordinator.FindCoordinatorResponse | None) -> None:
            one = None if answer is None else answer.coordinators[0]
            if one is None or one.error_code is not ErrorCode.none:
                self.soon(partial(self.find, then), 100)
            else:
                self.coordinator = one.node_id
                then()

        self.coordinator = self.any_broker()
        self.ask_coordinator(FIND, request, found, 2_000)

    def crash(self) -> None:
        """Its process ends: what it was told later nobody hears."""
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()
        self._open.clear()
        self.life += 1
