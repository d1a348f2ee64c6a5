"""`josefine consume --share`: a member of a share group, with our own client.

Rules: a record is accepted after it is written and flushed, so a crash in between repeats records
and never skips one. Without `--follow` it ends when no record was available for a moment. Records
that it has acquired and not written go to other members at its end.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from uuid import uuid4

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import share_admin, share_membership
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.share_membership import AcquiredRecords, Range, ShareMember
from josefine_cli.base.errors import UserError
from josefine_cli.base.signals import StopSignals
from josefine_cli.kafka.consume_records import FETCH_WAIT_MS, Write, named_when_damaged

RECORDS_MAX = 500
"""Of one fetch: what a member has, others cannot get."""
IDLE_SECONDS, START_SECONDS_MAX = 2.0, 60.0
"""Without --follow: how long no record is available, once the group knows where it starts; and how
long that may take."""
LEAVE_MS_MAX = 5_000


class ShareReader:
    """One member. Mutable."""

    def __init__(
        self,
        open_client: Callable[[], BlockingClient],
        group: str,
        topics: tuple[str, ...],
        write: Write,
        *,
        max_records: int | None,
        follow: bool,
    ) -> None:
        self._client = open_client()
        self._member = ShareMember(group, topics, str(uuid4()))
        self._write = write
        self._left = max_records
        self._follow = follow

    def run(self, stop: StopSignals) -> None:
        """Run until no record is available, `max_records` are written, or a signal comes. Raises
        KafkaError."""
        heard_s = read_s = time.monotonic()
        self._client.run(lambda s, t, d: share_membership.heartbeat(s, self._member, t, d))
        try:
            while stop.number is None and self._left != 0:
                now_s = time.monotonic()
                if now_s - heard_s >= self._member.heartbeat_ms / 1_000:
                    self._client.run(
                        lambda s, t, d: share_membership.heartbeat(s, self._member, t, d)
                    )
                    heard_s = now_s
                if self._read():
                    read_s = time.monotonic()
                elif not self._follow and now_s - read_s >= IDLE_SECONDS:
                    if self._has_started():
                        break
                    if now_s - read_s >= START_SECONDS_MAX:
                        raise UserError(f"group '{self._member.group}' does not start: ask the"
                                        " brokers with 'josefine doctor'")  # fmt: skip
        finally:
            with contextlib.suppress(KafkaError):
                self._client.run(
                    lambda s, t, d: share_membership.leave(s, self._member, t, d),
                    timeout_ms=LEAVE_MS_MAX,
                )
            self._client.close()

    def _has_started(self) -> bool:
        """Whether the group knows where it starts in each partition of this member. Until then an
        empty fetch does not mean that there are no records."""
        group = self._member.group
        starts = self._client.run(lambda s, t, d: share_admin.share_offsets(s, group, t, d))
        known = self._client.metadata(list(self._member.topics)).names
        return bool(self._member.assigned) and all(
            TopicPartition(known.get(topic_id, ""), index) in starts
            for topic_id, index in self._member.assigned
        )

    def _read(self) -> bool:
        """One fetch; returns whether there were records."""
        count = RECORDS_MAX if self._left is None else min(RECORDS_MAX, self._left)
        found = self._client.run(
            lambda s, t, d: share_membership.fetch(s, self._member, count, FETCH_WAIT_MS, t, d)
        )
        written = [(each, self._print(each)) for each in found]
        sys.stdout.flush()
        # Only now: what is lost between these lines is delivered again.
        for each, ranges in written:
            self._member.accept(each.part, ranges)
        return bool(found)

    def _print(self, acquired: AcquiredRecords) -> list[Range]:
        """Write the records; returns what is done. Offsets without a record are done with those
        before them."""
        done: list[Range] = []
        for first, last in acquired.ranges:
            if self._left == 0:
                break
            one = acquired._replace(ranges=((first, last),))
            end = last
            with named_when_damaged(acquired.tp):
                for record in one.each():
                    if self._left == 0:
                        end = record.offset - 1
                        break
                    self._write(acquired.tp, record)
                    if self._left is not None:
                        self._left -= 1
            if end >= first:
                done.append((first, end))
        return done
