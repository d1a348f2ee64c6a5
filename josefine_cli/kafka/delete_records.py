"""`josefine delete-records`: drop the oldest records of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import LATEST, BlockingClient
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import agree, connect, print_json
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import topic_names
from josefine_cli.kafka.names import partition_count

app = typer.Typer(add_completion=False, rich_markup_mode=None)

ALL = -1
"""DeleteRecords: up to the high watermark."""


@app.command("delete-records")
def delete_records(
    topic: Annotated[str, typer.Argument(help="The topic.", autocompletion=topic_names)],
    before: Annotated[
        list[str],
        typer.Option(metavar="PARTITION:OFFSET", help="Drop records below; 'end' for all."),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Drop the records of partitions below an offset, for good.

    Example: josefine delete-records orders --before 0:1000 --before 1:end
    """
    wanted = {TopicPartition(topic, index): offset for index, offset in map(_place, before)}
    agree(f"Delete records of {topic} before {', '.join(before)}?", yes, "deleting")
    with connect(bootstrap_of(bootstrap)) as client:
        partition_count(client, topic)
        _check_before_ends(client, wanted)
        starts = client.delete_records(wanted)
    if as_json:
        print_json({str(tp.partition): start for tp, start in sorted(starts.items())})
        return
    for tp, start in sorted(starts.items()):
        print(f"partition {tp.partition} starts at offset {start}")


def _check_before_ends(client: BlockingClient, wanted: Mapping[TopicPartition, int]) -> None:
    """Raise UserError for an offset after a partition's end, before any record is deleted."""
    below = {tp: offset for tp, offset in wanted.items() if offset != ALL}
    for tp, end in client.list_offsets(dict.fromkeys(below, LATEST)).items():
        if below[tp] > end.offset:
            raise UserError(
                f"partition {tp.partition} of '{tp.topic}' ends at offset {end.offset}, before "
                f"{below[tp]}: nothing was deleted; {tp.partition}:end deletes all its records"
            )


def _place(text: str) -> tuple[int, int]:
    index, colon, offset = text.partition(":")
    if not colon or not index.isdecimal() or not (offset.isdecimal() or offset == "end"):
        raise UsageError(f"--before '{text}' is not PARTITION:OFFSET, like 0:1000 or 0:end")
    return int(index), ALL if offset == "end" else int(offset)
