"""`josefine cluster replace OLD --with NEW`: another broker takes all replicas of one, which is
then removed from the cluster.

The command keeps no state: it looks at the cluster, starts what is missing and waits. After Ctrl-C,
a kill or a lost connection the moves that were started continue, and the same command continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

import typer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import members, replicas
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import connect, note, plural, print_json, print_table
from josefine_cli.cluster.local import DEFAULT_DIRECTORY
from josefine_cli.cluster.replacement import (
    MOVES_MAX,
    Cluster,
    Progress,
    remaining,
    why_not,
)
from josefine_cli.cluster.target import (
    AsJson,
    Bootstrap,
    BrokerId,
    Directory,
    bootstrap_of,
    local_cluster,
)

T = TypeVar("T")

POLL_S = 0.5
REPORT_S = 5.0
"""A line of progress at least so often, and whenever a partition has arrived."""
SIZES_MS = 1_000
"""How long a broker may take to report its logs' sizes, which only the estimate needs."""
PATIENCE_S = 120.0
"""How long the cluster may be out of reach before the command gives up: a controller is elected in
seconds, and a broker restarts in less."""


def replace(
    broker: BrokerId,
    new: Annotated[
        int, typer.Option("--with", metavar="BROKER", help="The broker that takes its place.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be moved, and change nothing.")
    ] = False,
    directory: Directory = DEFAULT_DIRECTORY,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Move every replica of a broker to another one, then remove it from the cluster, its vote
    too. Run it again after an interruption.

    \b
    josefine cluster replace 2 --with 4
    josefine cluster replace 2 --with 4 --dry-run
    """
    if broker == new:
        raise UsageError(f"broker {broker} cannot replace itself: name another one in --with")
    say = note if as_json else partial(print, flush=True)
    with connect(bootstrap_of(bootstrap, directory)) as client:
        work = _Replacement(client, broker, new, say)
        cluster = work.look()
        if broker not in cluster.fenced and broker not in cluster.voters:
            raise UserError(
                f"broker {broker} is not in the cluster: there is nothing (more) to replace"
            )
        # One that is unregistered and still votes: an earlier run ended before its vote did.
        reason = why_not(cluster, broker, new) if broker in cluster.fenced else ""
        if reason:
            raise UserError(reason)
        if dry_run:
            _show(cluster, broker, new, as_json)
            return
        try:
            moved = work.run(cluster)
        except KeyboardInterrupt:
            note(f"interrupted: started moves continue; {_command(broker, new)} continues the rest")
            raise
    local = local_cluster(directory) if bootstrap is None else None
    if local is not None and broker in local.brokers:
        local.stop([broker])
        local.forget(broker)
    if as_json:
        print_json({"replaced": broker, "with": new, "partitions": moved})
    else:
        print(f"broker {new} has replaced broker {broker}, whose process can be stopped")


def _command(old: int, new: int) -> str:
    return f"'josefine cluster replace {old} --with {new}'"


def _show(cluster: Cluster, old: int, new: int, as_json: bool) -> None:
    left = remaining(cluster, old, new)
    rows = [
        (tp, cluster.final(tp), left.start.get(tp, cluster.final(tp))) for tp in left.partitions
    ]
    if as_json:
        print_json(
            [
                {"topic": tp.topic, "partition": tp.partition, "from": before, "to": after}
                for tp, before, after in rows
            ]
        )
        return
    if rows:
        columns = ("topic", "partition", "replicas", "afterwards")
        print_table(
            columns,
            [
                (tp.topic, tp.partition, _joined(before), _joined(after))
                for tp, before, after in rows
            ],
        )
    vote = ", its vote too" if old in cluster.voters else ""
    print(f"{plural(left.count, 'partition')} would move; then broker {old} is removed{vote}")


def _joined(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


class _Replacement:
    """One run of the command. Mutable: the progress."""

    def __init__(
        self, client: BlockingClient, old: int, new: int, say: Callable[[str], None]
    ) -> None:
        self._client = client
        self._old = old
        self._new = new
        self._say = say

    def look(self) -> Cluster:
        """The cluster as it is now. Raises KafkaError."""
        client = self._client
        partitions, moves = client.run(replicas.placement)
        return Cluster(
            fenced=client.run(members.fenced_brokers),
            voters=client.run(members.voters),
            partitions=partitions,
            moves=moves,
        )

    def run(self, cluster: Cluster) -> int:
        """Do all of it; returns how many partitions were moved. Raises KafkaError, UserError."""
        total, deadline_s = 0, 0.0
        # A topic that is created meanwhile may get a replica on the old broker: its removal is
        # refused then, and the moves start again. A controller may fail during the removal, too.
        while self._old in cluster.fenced:
            total += self._move(cluster)
            deadline_s = deadline_s or time.monotonic() + PATIENCE_S
            try:
                self._client.run(lambda s, t, d: replicas.remove_broker(s, self._old, t, d))
                break
            except KafkaError as error:
                is_late = time.monotonic() > deadline_s
                if not may_try_again(error) or (is_late and not _has_replicas(error)):
                    raise
                self._say(f"not removed yet: {error.message or error.code.name}")
            time.sleep(POLL_S)
            cluster = self._patiently(self.look)
        self._say(f"broker {self._old} is removed from the cluster")
        self._wait_for_vote()
        return total

    def _move(self, cluster: Cluster) -> int:
        """Move until the old broker has no replica; returns how many partitions that were."""
        old, new = self._old, self._new
        left = remaining(cluster, old, new)
        count = left.count
        sizes = self._sizes(cluster, left.partitions)
        progress = Progress(total=count, bytes_total=sum(sizes.values()), began_s=time.monotonic())
        shown, shown_s = -1, 0.0
        while left.count:
            room = MOVES_MAX - len(left.moving)
            wanted = dict(list(left.start.items())[: max(0, room)])
            if wanted:
                self._start(wanted)
            now_s = time.monotonic()
            if left.count != shown or now_s - shown_s >= REPORT_S:
                shown, shown_s = left.count, now_s
                done = self._copied(sizes)
                moving = len(left.moving) + len(wanted)
                self._say(progress.line(left.count, moving, done, now_s))
            time.sleep(POLL_S)
            cluster = self._patiently(self.look)
            left = remaining(cluster, old, new)
            if left.has_both(new):
                # Of a topic that was created meanwhile.
                raise UserError(why_not(cluster, old, new))
            if cluster.fenced.get(new, True) and left.count:
                self._say(f"broker {new} does not serve: waiting for it")
                time.sleep(REPORT_S)
        if count:
            self._say(f"{plural(count, 'partition')} moved from broker {old} to broker {new}")
        return count

    def _start(self, targets: dict[TopicPartition, tuple[int, ...]]) -> None:
        """Start these moves. One that is refused because the partition changed is tried again."""
        try:
            outcomes = self._client.run(lambda s, t, d: replicas.reassign(s, dict(targets), t, d))
        except KafkaError as refused:
            self._say(f"not started yet: {refused.message}")
            return
        for tp, error in outcomes.items():
            if error is not None:
                self._say(f"{tp} is not moved yet: {error.message}")

    def _sizes(
        self, cluster: Cluster, wanted: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, int]:
        """The bytes of each partition at its leader, as far as the leaders answer."""
        sizes: dict[TopicPartition, int] = {}
        for leader in sorted({cluster.partitions[tp].leader for tp in wanted}):
            stored = self._stored_at(leader)
            led = [tp for tp in wanted if cluster.partitions[tp].leader == leader]
            sizes |= {tp: stored.get(tp, 0) for tp in led}
        return sizes

    def _copied(self, sizes: dict[TopicPartition, int]) -> int:
        """How many of these bytes the newcomer has."""
        stored = self._stored_at(self._new)
        return sum(min(size, stored.get(tp, 0)) for tp, size in sizes.items())

    def _stored_at(self, broker_id: int) -> dict[TopicPartition, int]:
        try:
            return self._client.run(
                lambda s, t, d: members.log_sizes(s, broker_id, t, d), timeout_ms=SIZES_MS
            )
        except KafkaError:
            return {}  # only the estimate is worse without it

    def _wait_for_vote(self) -> None:
        """Wait until the old broker is no voter either: until then its vote counts."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self._old in self._patiently(lambda: self._client.run(members.voters)):
            if time.monotonic() > deadline_s:
                raise UserError(
                    f"broker {self._old} still votes: {_command(self._old, self._new)} waits again"
                )
            time.sleep(POLL_S)
        self._say(f"broker {self._old} does not vote any more")

    def _patiently(self, look: Callable[[], T]) -> T:
        return patiently(look, self._say)


def _has_replicas(error: KafkaError) -> bool:
    return "holds replicas" in error.message


def may_try_again(error: KafkaError) -> bool:
    """Whether a refused removal may succeed later: other refusals need a person."""
    return _has_replicas(error) or error.code is not ErrorCode.invalid_request


def patiently(look: Callable[[], T], say: Callable[[str], None]) -> T:
    """The result, also if the cluster is out of reach for a while. Raises KafkaError."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return look()
        except KafkaError as error:
            if time.monotonic() > deadline_s:
                raise
            say(f"waiting for the cluster: {error.message or error.code.name}")
            time.sleep(POLL_S)
