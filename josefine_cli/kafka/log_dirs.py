"""`josefine log-dirs`: the replicas that each broker stores, with their sizes."""

from __future__ import annotations

from typing import Annotated

import typer

from josefine_broker.client.log_dirs import StoredReplica, describe_log_dirs
from josefine_cli.base.output import connect, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import topic_names

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("log-dirs")
def log_dirs(
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Only this one.", autocompletion=topic_names)
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List the replicas of all brokers with their sizes in bytes, and sums.

    Example: josefine log-dirs --topic orders
    """
    with connect(bootstrap_of(bootstrap)) as client:
        if topic is not None:
            client.partition_count(topic)
        found = [each for each in client.run(describe_log_dirs) if topic in (None, each.tp.topic)]
    if as_json:
        print_json([_told(each) for each in found])
        return
    rows = [(e.broker_id, e.tp.topic, e.tp.partition, e.size_bytes) for e in found]
    print_table(("broker", "topic", "partition", "bytes"), rows)
    for broker in sorted({each.broker_id for each in found}):
        own = [each for each in found if each.broker_id == broker]
        total = sum(each.size_bytes for each in own)
        print(f"broker {broker}: {total:,} bytes in {own[0].directory}")


def _told(replica: StoredReplica) -> dict[str, object]:
    return {
        "broker": replica.broker_id,
        "directory": replica.directory,
        "topic": replica.tp.topic,
        "partition": replica.tp.partition,
        "bytes": replica.size_bytes,
    }
