"""The pages of a writer's admin listener, over the values of its process: tables or archives."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from josefine_broker.base.addresses import HostPort, parse_host_port
from josefine_cli.base.errors import UsageError, UserError
from josefine_lake.report.admin_http import as_json, as_metrics, as_text, served
from josefine_lake.report.metric_table import TABLE
from josefine_lake.report.metrics import Scrape, health, is_ready
from josefine_lake.report.table_stats import ProcessStats
from josefine_lake.writer.worlds import monotonic_ms


def admin_address(text: str) -> HostPort:
    """Where `--admin` listens. Raises UsageError."""
    try:
        return parse_host_port(text)
    except ValueError as error:
        raise UsageError(f"--admin {text}: {error}") from error


@contextmanager
def admin_of(at: HostPort, stats: ProcessStats, what: str = TABLE) -> Iterator[HostPort]:
    """Serve the pages; yields the bound address. `what`: see `Scrape`. Raises UserError."""
    pages = {
        "/health": lambda: as_json(*health(stats, monotonic_ms())),
        "/health/live": lambda: as_text(True, "ok"),
        "/health/ready": lambda: as_text(*is_ready(stats, monotonic_ms())),
        "/metrics": lambda: as_metrics(
            Scrape(stats, _process(), time.time_ns() // 1_000_000, what).text()
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
        "process_cpu_seconds": usage.ru_utime + usage.ru_stime,
        "process_resident_bytes_max": usage.ru_maxrss * 1_024,
    }
