"""The pages of a table writer's admin listener, over the values of its process."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from josefine_broker.base.addresses import HostPort
from josefine_cli.base.errors import UserError
from josefine_lake.report.admin_http import as_json, as_metrics, as_text, served
from josefine_lake.report.metrics import Scrape, health, is_ready
from josefine_lake.report.table_stats import ProcessStats
from josefine_lake.writer.worlds import monotonic_ms


@contextmanager
def admin_of(at: HostPort, stats: ProcessStats) -> Iterator[HostPort]:
    """Serve the pages; yields the bound address. Raises UserError."""
    pages = {
        "/health": lambda: as_json(*health(stats, monotonic_ms())),
        "/health/live": lambda: as_text(True, "ok"),
        "/health/ready": lambda: as_text(*is_ready(stats, monotonic_ms())),
        "/metrics": lambda: as_metrics(
            Scrape(stats, _process(), time.time_ns() // 1_000_000).text()
        ),
    }
    with ExitStack() as stack:
        try:
            bound = stack.enter_context(served(at, pages))
        except OSError as error:
            reason = error.strerror or error
            raise UserError(
                f"--admin {at} cannot be listened on: {reason}; choose another address, or port 0 "
                "for any free one"
            ) from error
        yield bound


def _process() -> dict[str, float | None]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "table_process_cpu_seconds": usage.ru_utime + usage.ru_stime,
        "table_process_resident_bytes_max": usage.ru_maxrss * 1_024,
    }
