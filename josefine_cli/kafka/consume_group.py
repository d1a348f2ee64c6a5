"""`josefine consume --group`: a member of a consumer group, with our own client.

Rules: an offset is committed after its record is written and flushed, so a crash in between repeats
records and never skips one; written records are committed before this member rejoins and before it
leaves; the member sends heartbeats between two fetches, so it loses its partitions if its output is
read more slowly than the session timeout allows. Ctrl-C and SIGTERM end it after the current batch.
"""

from __future__ import annotations

import contextlib
import select
import sys
import time
from collections.abc import Callable, Iterable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import membership
from josefine_broker.client.fetch import Positions
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.membership import Membership
from josefine_broker.client.operations import partition_error
from josefine_cli.base.output import note
from josefine_cli.base.signals import StopSignals
from josefine_cli.kafka.consume_records import (
    FETCH_BYTES_MAX,
    FETCH_WAIT_MS,
    Write,
    named_when_damaged,
    records_of,
)
from josefine_cli.kafka.offset_spec import Place, resolve

COMMIT_SECONDS = 1.0
"""Commit interval: after a kill the records of this time are printed again."""
JOIN_MS_MAX = 600_000
"""A rebalance waits for the slowest member; Java's clients may take five minutes."""
ID_SECONDS_MAX = 1.0
"""Without an id in time, it is as if this member had been killed."""
LEAVE_MS_MAX = 5_000
"""Without an answer in time, the coordinator removes this member at its session timeout."""


class GroupReader:
    """One member with its positions and its committed offsets. Mutable."""

    def __init__(
        self,
        open_client: Callable[[], BlockingClient],
        member: Membership,
        first: Place,
        write: Write,
        *,
        max_records: int | None,
        follow: bool,
    ) -> None:
        """`first`: the start of partitions without a committed offset."""
        self._open_client = open_client
        self._client = open_client()
        self._member = member
        self._first = first
        self._write = write
        self._left = max_records
        self._follow = follow
        self._positions = Positions()
        self._is_called = True
        self._written: dict[TopicPartition, int] = {}
        self._committed_s = self._heard_s = time.monotonic()

    def run(self, stop: StopSignals) -> None:
        """Run until everything or `max_records` are read, or until a signal. Raises KafkaError."""
        try:
            while stop.number is None:
                if self._is_called or not self._member.is_of_a_generation:
                    self._commit()
                    if not self._join(stop):
                        break
                self._step(stop)
                if self._left == 0 or (self._positions.finished and not self._follow):
                    break
            self._commit()
        finally:
            with contextlib.suppress(KafkaError):
                self._client.run(
                    lambda s, t, d: membership.leave(s, self._member, t, d),
                    timeout_ms=LEAVE_MS_MAX,
                )
            self._client.close()

    def _join(self, stop: StopSignals) -> bool:
        """Join a generation and set the positions. False: a signal came during the wait."""
        self._written.clear()
        given: Iterable[TopicPartition] = ()
        try:
            with stop.ending(self._end_join):
                given = self._client.run(
                    lambda s, t, d: membership.join(s, self._member, t, d), timeout_ms=JOIN_MS_MAX
                )
        except KafkaError:
            if stop.number is None:
                raise
        if stop.number is not None:
            self._client.close()
            self._client = self._open_client()  # to leave the group
            return False
        self._is_called = False
        self._heard_s = time.monotonic()
        self._positions = Positions()
        self._assign(given, committed=self._client.committed_offsets(self._member.group, given))
        if not given and not self._follow:
            note(
                f"group '{self._member.group}' has more members than partitions: this one has none"
            )
        return True

    def _end_join(self) -> None:
        """End the wait for a generation, from another thread. The answer that has the member's id
        (KIP-394) comes at once and is waited for: without an id it cannot leave, and the next
        member would wait for it until its session times out."""
        waits_until_s = time.monotonic() + ID_SECONDS_MAX
        while not self._member.member_id and time.monotonic() < waits_until_s:
            time.sleep(0.01)
        self._client.close()

    def _assign(
        self, partitions: Iterable[TopicPartition], committed: dict[TopicPartition, int]
    ) -> None:
        """Start each partition at its committed offset, or at `first` without a valid one."""
        wanted = tuple(partitions)
        listed = {
            at: {
                tp: found.offset
                for tp, found in self._client.list_offsets(dict.fromkeys(wanted, at)).items()
            }
            for at in (EARLIEST, LATEST)
        }
        earliest, latest = listed[EARLIEST], listed[LATEST]
        first = resolve(self._client, self._first, earliest, latest) if wanted else {}
        for tp in wanted:
            begin = committed.get(tp)
            if begin is not None and not earliest[tp] <= begin <= latest[tp]:
                note(f"partition {tp}: the committed offset {begin} does not exist any more")
                begin = None
            if begin is None:
                begin = max(earliest[tp], min(first[tp], latest[tp]))
            self._positions.assign(tp, begin, None if self._follow else latest[tp])

    def _step(self, stop: StopSignals) -> None:
        wanted = self._positions.wanted()
        if wanted:
            fetched = self._client.fetch(
                wanted, partition_bytes_max=FETCH_BYTES_MAX, max_wait_ms=FETCH_WAIT_MS
            )
            self._take(fetched)
        elif self._follow:
            select.select([stop.descriptor], [], [], FETCH_WAIT_MS / 1000)
        now_s = time.monotonic()
        if now_s - self._committed_s >= COMMIT_SECONDS:
            self._commit()
        if now_s - self._heard_s >= self._member.settings.heartbeat_ms / 1000:
            goes_on = self._client.run(lambda s, t, d: membership.heartbeat(s, self._member, t, d))
            self._heard_s, self._is_called = now_s, not goes_on

    def _take(self, fetched: dict[TopicPartition, FetchedPartition]) -> None:
        """Write and flush the records; only then they count as read."""
        read: dict[TopicPartition, int] = {}
        for tp, part in fetched.items():
            if part.error_code is ErrorCode.offset_out_of_range:
                self._assign([tp], committed={})
                continue
            if part.error_code is not ErrorCode.none:
                raise partition_error(tp, part.error_code, None)
            with named_when_damaged(tp):
                for record in records_of(tp, part, self._positions):
                    if self._left == 0:
                        break
                    self._write(tp, record)
                    read[tp] = record.offset + 1
                    if self._left is not None:
                        self._left -= 1
                if self._left == 0:
                    break
                self._positions.advance(tp, part.records)
        sys.stdout.flush()
        self._written |= read

    def _commit(self) -> None:
        """Commit, unless the generation is over: then another member reads the records again."""
        self._committed_s = time.monotonic()
        written, self._written = self._written, {}
        if not written or not self._member.is_of_a_generation:
            return
        is_stored = self._client.run(
            lambda s, t, d: membership.commit(s, self._member, written, t, d)
        )
        if not is_stored:
            note(
                f"group '{self._member.group}' rebalanced without this member:"
                f" {len(written)} offsets are not committed, their records are read again"
            )
