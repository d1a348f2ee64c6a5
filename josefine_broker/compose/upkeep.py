"""What keeps a broker's logs small and whole: the cleaner, the scrub, the repairs of damage.

Created on the event loop, each with a thread of its own. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.ports import Clock
from josefine_broker.compose.archives import Archives
from josefine_broker.compose.settings import cleaner_settings, scrub_settings
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata_quorum.apply_committed import resume
from josefine_broker.engine.replicas.catching_up import CatchUps
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.host.log.cleaner import Cleaner
from josefine_broker.host.log.damage import DamagedLogs
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.scrub import Scrub
from josefine_broker.host.net.admin_http import Page
from josefine_broker.host.replica_manager import Hosting
from josefine_broker.host.ticker import Duty
from josefine_broker.host.worker import Worker
from josefine_broker.observe.healing import Healing
from josefine_broker.observe.storage import room_bytes

CLEANER_CHECK_MS = 1_000
"""Interval of checks whether a pass is over, or a log must be cleaned."""
SCRUB_CHECK_MS = 1_000
ARCHIVE_CHECK_MS = 2_000
"""Interval of questions for what archives have: a part of the time that an answer counts."""
REPAIR_CHECK_MS = 200
"""A consumer that meets damage waits for this, and for the repair."""


class Upkeep:
    """See the module. `stop` ends its threads."""

    def __init__(
        self,
        ctx: Context,
        manager: LogManager,
        hosting: Hosting,
        config: BrokerConfig,
        clock: Clock,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        cleaning = Worker(on_fatal, "cleaner")
        scrubbing, repairing = Worker(on_fatal, "scrub"), Worker(on_fatal, "repair")
        self._workers = (cleaning, scrubbing, repairing)
        self.damaged: DamagedLogs = hosting.damaged
        self.cleaner = Cleaner(
            manager.files,
            hosting.compacted,
            cleaning,
            clock,
            cleaner_settings(config.log),
            may_clean=lambda: ctx.image.cleans_logs and not ctx.storage.is_full,
            room_bytes=partial(room_bytes, config.broker),
            on_damage=lambda tp: self.scrub.verify_now([tp]),
        )
        self.scrub = Scrub(manager, scrubbing.submit, clock, scrub_settings(config.log))
        self.on_role: Callable[[], None] = _nothing
        """Called when a replica may have begun to follow without a new image: it is to copy."""

        # The replicator looks at the image's changes alone, and a repair ends after them.
        def take_role(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
            resume(ctx, tp, hosted)
            self.on_role()

        self.catch_ups = CatchUps(ctx, take_role)
        self.repairs = Repairs(ctx, hosting.damaged, repairing.submit, take_role)
        self.archives = Archives(ctx, manager, clock, config.log.archive_reader_port)
        retention = partial(hosting.apply_retention, self.archives.end)
        interval_ms = config.log.retention_check_interval_ms
        self._retention = Duty("retention", interval_ms, retention)
        self._healing = Healing(ctx, hosting.damaged, self.scrub, self.repairs)

    def duties(self) -> tuple[Duty, ...]:
        """Duties for the ticker."""
        return (
            Duty("cleaner", CLEANER_CHECK_MS, self.cleaner.step),
            Duty("scrub", SCRUB_CHECK_MS, self.scrub.step),
            Duty("repairs", REPAIR_CHECK_MS, self._repair),
            self._retention,
            Duty("archives", ARCHIVE_CHECK_MS, self.archives.step),
            Duty("catch_ups", REPAIR_CHECK_MS, self.catch_ups.step),
        )

    def _repair(self) -> None:
        self.repairs.step()
        if next(iter(self.repairs), None) is not None:  # its leader may know where to cut its log
            self.on_role()

    def pages(self) -> Mapping[str, Page]:
        """Pages of the admin listener."""
        return {"/logs": self._healing.view, "/logs/checksums": self._healing.checksums}

    def actions(self) -> Mapping[str, Page]:
        """Actions of the admin listener."""
        healing = self._healing
        return {"/logs/verify": healing.verify, "/logs/accept-loss": healing.accept_loss}

    async def stop(self) -> None:
        """End the running work, and store how far the scrub has come."""
        await self.archives.stop()
        for worker in self._workers:
            await worker.stop()
        self.scrub.store()


def _nothing() -> None:
    """No replicator yet."""
