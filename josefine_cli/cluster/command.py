"""`josefine cluster`: a local cluster for development, and the inspection and changes of any one.

`up`, `down`, `kill` and `restart` manage processes of this machine (`local.py`). The other verbs
send requests to brokers, found through --directory, --admin or --bootstrap, wherever they run.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated, Any

import typer

from josefine_cli.base.errors import EXIT_FAILURE, UsageError
from josefine_cli.base.output import is_terminal, note, plural, print_json, print_table
from josefine_cli.cluster.local import (
    BROKERS_MAX,
    DEFAULT_DIRECTORY,
    LocalCluster,
    command_for,
)
from josefine_cli.cluster.reassign import elect, reassign, remove
from josefine_cli.cluster.replace import replace
from josefine_cli.cluster.target import (
    Admin,
    AsJson,
    BrokerId,
    Directory,
    admin_urls,
)
from josefine_cli.cluster.verify import verify
from josefine_cli.cluster.view import (
    Survey,
    View,
    ask_first,
    first_view,
    joined,
    place,
    problems,
    role,
    take_survey,
)
from josefine_cli.cluster.watch import watch

app = typer.Typer(
    help="Run a local cluster; inspect any cluster, move its partitions, grow and shrink it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

DEFAULT_BROKERS = 3
SHOWN_DIGEST = 8

app.command()(watch)
app.command()(reassign)
app.command()(elect)
app.command()(remove)
app.command()(replace)
app.command()(verify)


@app.command()
def up(
    brokers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=BROKERS_MAX,
            help="Total number; default: as before, or 3. New ones get new numbers.",
        ),
    ] = None,
    directory: Directory = DEFAULT_DIRECTORY,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Of broker 1, the others follow; 0: any free ones."),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Detect a lost broker in a third of a second.")
    ] = False,
    with_tables: Annotated[
        bool | None,
        typer.Option(
            "--with-tables/--without-tables",
            help="Also run a table writer next to each broker that starts, now or later.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start brokers in the background and wait until all serve. More brokers than there were join
    the running cluster.

    \b
    josefine cluster up
    josefine cluster up --brokers 5 --port 19092
    """
    fresh = not LocalCluster.exists(directory)
    cluster = LocalCluster(directory) if fresh else LocalCluster.load(directory)
    before = len(cluster.brokers)
    count = brokers or before or DEFAULT_BROKERS
    if count < before:
        raise UsageError(
            f"there are {before} brokers in {directory}:"
            f" {command_for('remove N', directory)} takes one out"
        )
    old = sorted(cluster.brokers)
    stopped = [id_ for id_ in old if id_ not in cluster.running]
    changes = with_tables is not None and with_tables != bool(cluster.with_tables)
    if with_tables is not None:
        cluster.with_tables = with_tables  # stored with the brokers, or below without new ones
    if not fresh and not before:
        raise UsageError(f"no broker is left of the cluster in {directory}: choose another one")
    if count > before:
        cluster.add(count, port, fast=fast, replication=min(3, count))
    elif fast or port is not None:
        note("--fast and --port are for new brokers: existing ones keep their settings")
    # Old brokers start first: new ones join them and need their majority.
    try:
        cluster.start(stopped, keep=True)
        new = [id_ for id_ in sorted(cluster.brokers) if id_ not in old]
        cluster.start(new, keep=not fresh)
    except BaseException:
        if fresh:
            cluster.discard()
        raise
    cluster.store()
    _note_tables(cluster, [id_ for id_ in old if id_ not in stopped] if changes else [])
    for id_ in sorted(cluster.brokers):
        broker = cluster.broker(id_)
        print(f"broker {id_} on {broker.address} (process {broker.pid}, {broker.admin_url})")
    print(f"bootstrap: {cluster.bootstrap}")
    _note_default_copies(cluster.default_copies())
    note(f"data and logs are in {directory}; {command_for('down', directory)} stops it")


def _note_tables(cluster: LocalCluster, running: list[int]) -> None:
    """Note which brokers ran before their table writers were switched on or off."""
    what = "starts" if cluster.with_tables else "ends"
    for id_ in running:
        note(
            f"broker {id_} already runs: {command_for(f'restart {id_}', cluster.directory)}"
            f" {what} its table writer"
        )


def _note_default_copies(copies: dict[int, int]) -> None:
    """Note that the first brokers of a grown cluster keep the defaults they were created with."""
    most = max(copies.values(), default=0)
    fewer = [id_ for id_, each in copies.items() if each < most]
    if fewer:
        brokers = "broker" if len(fewer) == 1 else "brokers"
        make = "makes" if len(fewer) == 1 else "make"
        kept = copies[fewer[0]]
        note(
            f"{brokers} {joined(fewer)} still {make} topics with {plural(kept, 'replica')} by"
            f" default: create them with --replication-factor {most}"
        )


@app.command()
def down(directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop the brokers of a local cluster; their data are kept.

    \b
    josefine cluster down
    """
    cluster = LocalCluster.load(directory)
    running = cluster.running
    killed = cluster.stop(running)
    if not running:
        print("no broker was running")
        return
    print(f"stopped {plural(len(running), 'broker')}; the data stay in {directory}")
    for id_ in killed:
        note(f"broker {id_} did not stop in time and was killed")


@app.command()
def kill(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Kill a local broker with SIGKILL, as a crash would.

    \b
    josefine cluster kill 2
    """
    cluster = LocalCluster.load(directory)
    found = cluster.broker(broker)
    if not cluster.is_running(found):
        raise UsageError(f"broker {broker} is not running")
    cluster.kill(broker)
    print(f"killed broker {broker} (process {found.pid})")


@app.command()
def restart(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a local broker if it runs, start it, wait until it serves.

    \b
    josefine cluster restart 2
    """
    cluster = LocalCluster.load(directory)
    cluster.broker(broker)
    cluster.stop([broker])
    cluster.start([broker], keep=True)
    found = cluster.broker(broker)
    print(f"broker {broker} on {found.address} (process {found.pid})")


@app.command()
def status(
    directory: Directory = DEFAULT_DIRECTORY, admin: Admin = None, as_json: AsJson = False
) -> None:
    """Query every broker and report whether the cluster is healthy; exit code 1 if it is not.

    \b
    josefine cluster status
    josefine cluster status --admin broker-1:9292
    """
    found = take_survey(admin_urls(admin, directory))
    wrong = problems(found)
    if as_json:
        print_json(_status_json(found, wrong))
    else:
        _print_status(found, wrong)
    if wrong:
        raise typer.Exit(EXIT_FAILURE)


def _status_json(found: Survey, wrong: list[str]) -> dict[str, Any]:
    best = found.best
    return {
        "cluster_id": best["cluster_id"],
        "controller": best["raft"]["leader"],
        "term": best["raft"]["term"],
        "commit": best["raft"]["commit"],
        "images_equal": found.images_equal,
        "images_equal_at": found.common_height if found.formed else None,
        "counts": best["counts"],
        "brokers": [
            {"id": broker["id"], "place": place(broker), "role": role(best, broker["id"])}
            | _own_words(found.views.get(broker["id"]))
            for broker in best["brokers"]
        ],
        "problems": wrong,
    }


def _own_words(view: View | None) -> dict[str, Any]:
    if view is None:
        return {"answers": False, "applied": None, "digest": None}
    image = view["image"]
    return {"answers": True, "applied": view["raft"]["applied"], "digest": image["digest"]}


def _print_status(found: Survey, wrong: list[str]) -> None:
    best, counts = found.best, found.best["counts"]
    raft = best["raft"]
    # Without the first block there is no cluster id and no image: the table would be empty, and its
    # counts of 0 would look healthy.
    if not found.formed:
        for each in wrong:
            print(f"problem: {each}")
        return
    leader = "no controller" if raft["leader"] < 0 else f"controller {raft['leader']}"
    print(f"cluster {best['cluster_id']}: {leader}, term {raft['term']}, commit {raft['commit']}")
    rows = []
    for broker in best["brokers"]:
        own = _own_words(found.views.get(broker["id"]))
        rows.append(
            (
                broker["id"],
                place(broker) if own["answers"] else f"{place(broker)}, silent",
                role(best, broker["id"]),
                "-" if own["applied"] is None else own["applied"],
                (own["digest"] or "-")[:SHOWN_DIGEST],
                _endpoints(broker),
            )
        )
    print_table(("broker", "place", "role", "applied", "image", "address"), rows)
    equal = {True: "yes", False: "no", None: "unknown"}[found.images_equal]
    height = "" if found.common_height is None else f" at height {found.common_height}"
    print(f"images equal{height}: {equal}")
    print(
        f"{plural(counts['topics'], 'topic')}, {plural(counts['partitions'], 'partition')}: "
        f"{counts['offline']} offline, {counts['under_replicated']} under-replicated, "
        f"{counts['reassigning']} moving"
    )
    for each in wrong:
        print(f"problem: {each}")


def _endpoints(broker: dict[str, Any]) -> str:
    return " ".join(broker["endpoints"].values())


@app.command("brokers")
def list_brokers(
    directory: Directory = DEFAULT_DIRECTORY, admin: Admin = None, as_json: AsJson = False
) -> None:
    """List the brokers with their state, role and share of the partitions.

    \b
    josefine cluster brokers
    josefine cluster brokers --admin broker-1:9292 --json
    """
    view = first_view(admin_urls(admin, directory))
    shown = [_broker_told(view, broker) for broker in view["brokers"]]
    if as_json:
        print_json(shown)
        return
    columns = ("id", "place", "role", "rack", "address", "raft", "leads", "copies", "epoch")
    print_table(
        [{"id": "broker"}.get(each, each) for each in columns],
        [["-" if each[name] is None else each[name] for name in columns] for each in shown],
    )


def _broker_told(view: View, broker: dict[str, Any]) -> dict[str, Any]:
    partitions = view["partitions"]
    return {
        "id": broker["id"],
        "place": place(broker),
        "role": role(view, broker["id"]),
        "rack": broker["rack"],
        "address": _endpoints(broker),
        "raft": broker["raft"],
        "admin": broker["admin"],
        "leads": sum(each["leader"] == broker["id"] for each in partitions),
        "copies": sum(broker["id"] in each["replicas"] for each in partitions),
        "epoch": broker["epoch"],
    }


@app.command("partitions")
def list_partitions(
    topic: Annotated[str | None, typer.Option(help="Of this topic only.")] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only those with too few in sync.")
    ] = False,
    broker: Annotated[
        int | None, typer.Option(help="Only those with a replica on this broker.", metavar="BROKER")
    ] = None,
    directory: Directory = DEFAULT_DIRECTORY,
    admin: Admin = None,
    as_json: AsJson = False,
) -> None:
    """List partitions with leader, replicas and in-sync replicas.

    \b
    josefine cluster partitions --topic orders
    josefine cluster partitions --under-replicated
    """
    view = first_view(admin_urls(admin, directory))
    found = view["partitions"]
    # Only a missing topic is an error. That no partition matches the other filters is the answer a
    # script hopes for.
    if topic is not None:
        found = [each for each in found if each["topic"] == topic]
        if not found:
            raise UsageError(f"topic '{topic}' does not exist")
    if broker is not None:
        found = [each for each in found if broker in each["replicas"]]
    if under_replicated:
        found = [each for each in found if each["under_replicated"]]
    if as_json:
        print_json(found)
    elif not found:
        print("no under-replicated partitions" if under_replicated else "no partitions")
    else:
        columns = ("topic", "partition", "leader", "epoch", "replicas", "isr", "state")
        print_table(columns, [_partition_row(each) for each in found])


def _partition_row(partition: dict[str, Any]) -> tuple[Any, ...]:
    leader = "none" if partition["leader"] < 0 else partition["leader"]
    return (
        partition["topic"],
        partition["partition"],
        leader,
        partition["leader_epoch"],
        joined(partition["replicas"]),
        joined(partition["isr"]),
        _partition_state(partition),
    )


def _partition_state(partition: dict[str, Any]) -> str:
    states = []
    if partition["leader"] < 0:
        states.append("offline")
    elif partition["under_replicated"]:
        states.append("under-replicated")
    if partition["adding"] or partition["removing"]:
        states.append(f"moving +{joined(partition['adding'])} {_minus(partition['removing'])}")
    return ", ".join(states) or "ok"


def _minus(ids: list[int]) -> str:
    return f"\N{MINUS SIGN}{joined(ids)}" if ids else ""


@app.command()
def chain(
    last: Annotated[int, typer.Option(min=1, max=10_000, help="The newest N blocks.")] = 50,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII only.")] = False,
    directory: Directory = DEFAULT_DIRECTORY,
    admin: Admin = None,
    as_json: AsJson = False,
) -> None:
    """Draw the chain of metadata blocks as known by one broker, the newest on top.

    \b
    josefine cluster chain --last 5
    """
    from josefine_cli.cluster.chain import ASCII, UNICODE, draw

    body = ask_first(admin_urls(admin, directory), f"/cluster/chain?last={last}")
    if as_json:
        print_json(body)
        return
    is_shown = is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if is_shown else None
    can_unicode = (getattr(sys.stdout, "encoding", "") or "").lower().startswith("utf")
    colour = is_shown and "NO_COLOR" not in os.environ
    for line in draw(body, UNICODE if can_unicode and not ascii_only else ASCII, width):
        print(_painted(line.text, line.state) if colour else line.text)


def _painted(text: str, state: str) -> str:
    colour = {"dead": "\x1b[31m", "open": "\x1b[33m"}.get(state)
    return text if colour is None else f"{colour}{text}\x1b[0m"
