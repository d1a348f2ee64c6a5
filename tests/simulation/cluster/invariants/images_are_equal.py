"""6. Brokers that have applied the same blocks have the same metadata, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import View

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["ImagesAreEqual"]


class ImagesAreEqual(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._digests: dict[int, str] = {}

    def applied(self, process: Process, height: int) -> None:
        digest = process.ctx.image.digest()
        first = self._digests.setdefault(height, digest)
        assert digest == first, f"broker {process.machine.id} has other metadata at {height}"
