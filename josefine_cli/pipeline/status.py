"""The command `josefine pipeline status FILE`: progress of each sink, and whether a run would stop.

It queries the brokers and reads logs and checkpoints, here or in S3, without Spark. Exit codes: 0
every sink would continue, 1 one would stop, failed or could not be inspected, 78 invalid file.
"""

from __future__ import annotations

from pathlib import Path

import typer

from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline.file import ENVIRONMENT, FILE, JSON, print_json
from pipelines.base.errors import EXIT_FAILED
from pipelines.base.plurals import counted
from pipelines.base.variables import hidden
from pipelines.model.pipeline import Source


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(status)


def status(file: Path = FILE, environment: str | None = ENVIRONMENT, as_json: bool = JSON) -> None:
    """Show the progress of each sink and whether a run would stop; no Spark, writes nothing.

    \b
    josefine pipeline status orders.yaml
    """
    pipeline = pipeline_file.read(file, environment, as_json)
    from josefine_cli.base.output import iso_time
    from pipelines.inspect.status import status as status_of
    from pipelines.sources.josefine import Topics
    from pipelines.sources.kinds import ANY_KIND

    def look(source: Source) -> Topics:
        return ANY_KIND.look(source)

    found = status_of(pipeline, look)
    if as_json:
        print_json({"name": pipeline.name, "sinks": [each.to_json() for each in found]})
    else:
        lines = [pipeline.name]
        for each in found:
            behind = "" if each.behind is None else f", {counted(each.behind, each.unit)} behind"
            ends = f"ends at {each.ends_in_words}" if each.ends else "has nothing"
            lines.append(f"  {each.sink}: {each.table} {ends}{behind}")
            if each.version is not None:
                when = "" if each.committed_ms is None else f", {iso_time(each.committed_ms)}"
                lines.append(f"    last commit: version {each.version}{when}")
            if each.failed:
                when = "" if each.failed_ms is None else f" ({iso_time(each.failed_ms)})"
                lines.append(f"    it failed{when}: {each.failed}")
            if each.stops:
                lines.append(f"    a run would stop: {each.stops}")
            if each.unknown:
                lines.append(f"    not known: {each.unknown}")
        print(hidden("\n".join(lines), pipeline.secrets))
    # The exit status is for monitoring: unknown counts as bad, because silence is not health.
    if any(each.stops or each.unknown or each.failed for each in found):
        raise typer.Exit(EXIT_FAILED)
