"""`josefine perf`: a profile of a running broker from two samples of its metrics."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from josefine_cli.base.admin import ask_text
from josefine_cli.base.errors import UserError
from josefine_cli.base.output import print_json, print_table
from josefine_cli.cluster.local import DEFAULT_DIRECTORY
from josefine_cli.cluster.target import Admin, AsJson, Directory, admin_urls

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def perf(
    seconds: Annotated[
        float, typer.Option("--seconds", "-s", min=0.1, max=3_600, help="Between the two samples.")
    ] = 5.0,
    directory: Directory = DEFAULT_DIRECTORY,
    admin: Admin = None,
    as_json: AsJson = False,
) -> None:
    """Show where a running broker's time goes: requests per second by API, their latency, the
    shares of the broker's thread and of waiting, CPU, fsyncs.

    \b
    josefine perf
    josefine perf --admin broker-1:9644 --seconds 30 --json
    """
    from josefine_cli.dev.perf_view import Between, lines_of, samples_of

    (url, *_) = admin_urls(admin, directory)
    try:
        before, began = samples_of(ask_text(url, "/metrics")), time.monotonic()
        time.sleep(seconds)
        after, took = samples_of(ask_text(url, "/metrics")), time.monotonic() - began
    except ValueError as error:
        raise UserError(f"{url}/metrics is not what a broker answers") from error
    # Two samples, because a broker's counters only grow: their difference is the rate now, not the
    # mean since its start.
    between = Between(before, after, took)
    whole, apis = between.whole(), between.apis()
    if as_json:
        totals = {"seconds": round(took, 3), **whole._asdict()}
        print_json({**totals, "apis": [each._asdict() for each in apis]})
        return
    for line in lines_of(whole):
        print(line)
    if not apis:
        return
    columns = (
        "API",
        "requests/s",
        "errors/s",
        "p50 ms",
        "p99 ms",
        "thread µs",
        "thread %",
        "waits ms",
    )
    rows = [
        (
            each.api,
            f"{each.requests_per_s:,.1f}",
            f"{each.errors_per_s:,.1f}",
            *("-" if q is None else f"{q:.3g}" for q in (each.p50_ms, each.p99_ms)),
            f"{each.local_us:,.0f}",
            f"{each.thread_percent:.1f}",
            f"{each.waiting_ms:,.1f}",
        )
        for each in apis
    ]
    print_table(columns, rows)
