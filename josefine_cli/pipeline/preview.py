"""The command `josefine pipeline preview FILE NODE`: rows of a source, transform or sink's input.

It touches no table, checkpoint or group; for a source it mostly needs no Spark. Rows go to stdout
(JSON with --json), reasons of bad records to stderr. Exit codes: 0 success, 1 failure, 2 unknown
node, 78 invalid file, 79 the machine is not ready.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline.file import ENVIRONMENT, FILE, JSON
from josefine_cli.pipeline.secrets import hiding, print_hidden_json
from pipelines.base.errors import ConfigError, PipelineError, RunError
from pipelines.base.plurals import counted
from pipelines.base.variables import hidden
from pipelines.model.pipeline import Pipeline

if TYPE_CHECKING:
    from pipelines.inspect.preview import Preview

NODE = typer.Argument(help="A source, transform or sink of the file.", show_default=False)
ROWS = typer.Option(10, "-n", "--rows", min=1, max=10_000, help="How many rows at most.")
RECORDS = typer.Option(
    100, min=1, max=1_000_000, help="Of how many records of each partition: the newest of topics."
)


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(preview)


def preview(
    file: Path = FILE,
    node: str = NODE,
    rows: int = ROWS,
    records: int = RECORDS,
    environment: str | None = ENVIRONMENT,
    as_json: bool = JSON,
) -> None:
    """Print rows of a node, made of the newest records; writes nothing and asks no table.

    \b
    josefine pipeline preview orders.yaml clean -n 10
    """
    pipeline = pipeline_file.read(file, environment, as_json)
    from josefine_cli.pipeline.source_preview import preview_of_source
    from pipelines.inspect.preview import input_of

    with hiding(pipeline):
        # Its error for an unknown node comes before Spark starts, which takes seconds.
        input_of(pipeline, node)
        found = preview_of_source(pipeline, node, rows, records)
        if found is None:
            found = _with_spark(pipeline, node, rows, records, as_json=as_json)
    if as_json:
        print_hidden_json(pipeline, found.to_json())
        return
    from josefine_cli.base.output import print_table

    cells = [[hidden(cell, pipeline.secrets) for cell in row] for row in found.cells()]
    print_table([*found.columns], cells)
    for reason, count in found.bad.items():
        bad = f"{counted(count, 'record')} not shown: {reason}"
        print(hidden(bad, pipeline.secrets), file=sys.stderr)
    if not found.rows:
        print(f"no rows of the newest {records} records of each partition", file=sys.stderr)


def _with_spark(
    pipeline: Pipeline, node: str, rows: int, records: int, *, as_json: bool
) -> Preview:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from josefine_broker.base.errors import KafkaError
    from pipelines.exactly_once.verdict_messages import clear_reason
    from pipelines.inspect.preview import preview as look
    from pipelines.run.session import session_of

    try:
        with session_of(pipeline) as spark:
            return look(spark, pipeline, node, rows=rows, records=records)
    except ConfigError as error:
        pipeline_file.refuse(error, as_json)
    except PipelineError:
        raise
    except (KafkaError, OSError, Py4JError, PySparkException) as error:
        raise RunError(f"`{node}`: {clear_reason(error)}") from error
