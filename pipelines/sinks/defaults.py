"""What most targets share: losses in a Delta table, no maintenance of their own, no keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipelines.exactly_once.data_loss import LostRange
from pipelines.sinks import loss_table
from pipelines.sinks.delta_maintenance import Keeper
from pipelines.sinks.target import TargetRun


class OpenDefaults:
    """For classes that are an `OpenTarget`."""

    __slots__ = ()
    run: TargetRun

    def record_losses(self, lost: Sequence[LostRange]) -> None:
        """Record them in the Delta table that the run names."""
        loss_table.record(self.run, lost)

    def keeper(self, stopping: Callable[[], bool]) -> Keeper | None:
        """None: nobody maintains the target, or somebody else does."""
        return None


class AppendOnly:
    """For classes that are a `SinkTarget` whose rows are only added."""

    __slots__ = ()

    def keys(self) -> tuple[str, ...]:
        """None."""
        return ()
