"""Run of several pipelines on one Spark (`josefine pipeline run A.yaml B.yaml`), independently."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from josefine_cli.pipeline import file
from josefine_cli.pipeline.run_end import stop_on_signals, summary
from josefine_cli.pipeline.secrets import hiding
from pipelines.base.errors import ConfigError, RunError
from pipelines.base.variables import hidden
from pipelines.model.pipeline import Pipeline

if TYPE_CHECKING:
    from pipelines.report.events import Reporter
    from pipelines.report.totals import RunResult


def run(pipelines: Sequence[Pipeline], *, skip_losses: bool, as_json: bool) -> None:
    """Raises ConfigError for files that cannot run together, RunError at the end if any failed."""
    from pipelines.inspect.writable_folders import refuse_unwritable
    from pipelines.run.multi_run import refuse_strangers

    try:
        refuse_strangers(pipelines)
    except ConfigError as error:
        file.refuse(error, as_json)
    with ExitStack() as secrets:
        for pipeline in pipelines:
            refuse_unwritable(pipeline, os.environ)
            secrets.enter_context(hiding(pipeline))
        results, failures = _run(pipelines, skip_losses=skip_losses)
    for pipeline in pipelines:
        if pipeline.name in results:
            summary(pipeline, results[pipeline.name], as_json)
    if failures:
        raise RunError("\n".join(dict.fromkeys(failures)))


def _run(
    pipelines: Sequence[Pipeline], *, skip_losses: bool
) -> tuple[dict[str, RunResult], list[str]]:
    """The results and failures of the pipelines, without secrets."""
    from rich.console import Console

    from pipelines.report.metrics import told
    from pipelines.report.progress import reporter_for, unheard
    from pipelines.run.multi_run import run_all
    from pipelines.run.options import Wishes
    from pipelines.run.run import run_sinks
    from pipelines.run.session import arm_failpoints, paths_of, session_of_all, what_begins

    results: dict[str, RunResult] = {}
    failures: list[str] = []
    by_name = {pipeline.name: pipeline for pipeline in pipelines}
    stop = threading.Event()

    def ended(name: str, failure: Exception | None) -> None:
        told_of = [*results[name].failures.values()] if name in results else []
        for each in [failure, *told_of] if failure else told_of:
            failures.append(hidden(f"{name}: {each}", by_name[name].secrets))
        if failure and not by_name[name].json_log:
            # The reporter has already logged the failures of its sinks.
            first, *_ = failures[-1].splitlines()
            console.print(f"{first}; the other pipelines continue", highlight=False, soft_wrap=True)

    with ExitStack() as stack:
        console = Console(file=stack.enter_context(unheard(os.dup(2))))
        reporters: dict[str, Reporter] = {}
        begins = what_begins(pipelines[0].conf, [p for each in pipelines for p in paths_of(each)])
        for name, pipeline in by_name.items():
            one = reporter_for(console, pipeline, is_one_of_many=True)
            stack.enter_context(one)
            reporters[name] = stack.enter_context(told(pipeline, one))
            reporters[name].starting(begins)
        spark = stack.enter_context(session_of_all(pipelines))
        arm_failpoints(spark)
        stop_on_signals(stop)

        def work(name: str) -> None:
            wishes = Wishes(skip_losses=skip_losses)
            results[name] = run_sinks(
                spark, by_name[name], reporters[name], wishes=wishes, stop=stop
            )

        run_all({name: partial(work, name) for name in by_name}, ended)
    return results, failures
