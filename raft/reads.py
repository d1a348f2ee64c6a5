"""Linearizable reads without a write (section 8, thesis 6.4), started on any node.

A read is queued, asked, confirmed, done. The leader notes its commit and waits until a majority
answered a round that started later; another node asks the leader, whose answer is that commit. Then
the read waits until the commit is applied here. A read changes nothing, so the request may be
repeated and is: after a loss of leadership, and while an answer is overdue. Each request has its
own number, and its answer covers the reads that were started before it left, never later ones that
wait with them. A read without a result at its deadline ends without one.
"""

import heapq
from collections import deque

from raft.errors import Refused
from raft.ids import BlockId, NodeId
from raft.ready import ReadDone

__all__ = ["Reads"]

_Asker = tuple[NodeId | None, int]
"""The node that asked (None: this one) and the read's number there."""

QUESTIONS_MAX = 16
"""Requests to the leader whose answers still count: an answer may take longer than a heartbeat,
after which the request is repeated under a new number."""


class Reads:
    """Mutable queue of open reads."""

    __slots__ = (
        "_asked",
        "_confirmed",
        "_deadlines",
        "_next_number",
        "_open",
        "_outstanding_max",
        "_questions",
        "_queued",
        "_sent_ms",
        "_unanswered",
        "done",
    )

    def __init__(self, outstanding_max: int, *, first_number: int) -> None:
        """A random `first_number` keeps answers to an earlier run from matching our requests."""
        self._outstanding_max = outstanding_max
        self._next_number = first_number
        self._open: set[int] = set()  # ours, not reported yet
        self._deadlines: list[tuple[int, int]] = []
        self._queued: list[_Asker] = []
        self._asked: deque[tuple[_Asker, int, BlockId]] = deque()  # as leader: round, commit
        self._questions: dict[int, list[int]] = {}  # requests to our leader: number → our reads
        self._unanswered: dict[int, None] = {}  # reads in an unanswered request; an ordered set
        self._sent_ms = 0
        self._confirmed: list[tuple[int, BlockId]] = []  # until applied
        self.done: list[ReadDone] = []

    def add(self, deadline_ms: int) -> int:
        """Add a local read. Raises Refused when too many are open."""
        if len(self._open) >= self._outstanding_max:
            raise Refused(f"{self._outstanding_max} reads are open already")
        number = self._new_number()
        self._open.add(number)
        heapq.heappush(self._deadlines, (deadline_ms, number))
        self._queued.append((None, number))
        return number

    def _new_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def add_for(self, sender: NodeId, number: int) -> None:
        """A read that another node asks us for. Beyond the bound it is dropped: that node asks
        again."""
        if len(self._queued) + len(self._asked) < self._outstanding_max:
            self._queued.append((sender, number))

    @property
    def has_queued(self) -> bool:
        return bool(self._queued)

    # -- on the leader

    def ask(self, round_: int, commit: BlockId) -> None:
        """This round, as of this commit, answers every queued read."""
        self._asked.extend((asker, round_, commit) for asker in self._queued)
        self._queued.clear()

    def confirm(self, round_: int) -> list[tuple[NodeId, int, BlockId]]:
        """A majority answered this round; return the answers for other nodes."""
        answers: list[tuple[NodeId, int, BlockId]] = []
        while self._asked and self._asked[0][1] <= round_:
            (sender, number), _, commit = self._asked.popleft()
            if sender is None:
                self._confirmed.append((number, commit))
            else:
                answers.append((sender, number, commit))
        return answers

    # -- elsewhere

    def send(self, now_ms: int) -> int:
        """Send all queued reads to the leader as one request; return its number."""
        question = self._new_number()
        reads = self._questions[question] = [number for _, number in self._queued]
        self._unanswered.update(dict.fromkeys(reads))
        self._sent_ms = now_ms
        self._queued = []
        if len(self._questions) > QUESTIONS_MAX:
            del self._questions[next(iter(self._questions))]
        return question

    def send_again(self, sent_until_ms: int) -> None:
        """Queue the unanswered reads again if the last request was sent before this time."""
        if self._unanswered and self._sent_ms <= sent_until_ms:
            self._requeue()

    def answered(self, question: int, commit: BlockId) -> None:
        """The leader answered the reads of this request."""
        for read in self._questions.pop(question, ()):
            self._unanswered.pop(read, None)
            self._confirmed.append((read, commit))

    # -- everywhere

    def start_over(self) -> None:
        """The leader changed: local reads wait for the next one; other nodes ask again."""
        self._queued = [asker for asker in self._queued if asker[0] is None]
        self._queued += [asker for asker, _, _ in self._asked if asker[0] is None]
        self._asked.clear()
        self._questions.clear()
        self._requeue()

    def _requeue(self) -> None:
        self._queued += [(None, read) for read in self._unanswered]
        self._unanswered.clear()
        self._forget_ended()

    def _forget_ended(self) -> None:
        self._queued = [
            (sender, n) for sender, n in self._queued if sender is not None or n in self._open
        ]

    def applied(self, applied: BlockId) -> None:
        """The state machine has applied this block: end the reads that may look at it."""
        if not self._confirmed:
            return
        for number, commit in self._confirmed:
            if commit.height <= applied.height and number in self._open:
                self._end(number, commit)
        self._confirmed = [r for r in self._confirmed if r[0] in self._open]

    def expire(self, now_ms: int) -> None:
        """End reads that are past their deadline, without a result."""
        ended = False
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            number = heapq.heappop(self._deadlines)[1]
            if number in self._open:
                self._end(number, None)
                ended = True
        if ended:  # so that the queue stays bounded while nobody leads
            self._forget_ended()

    def next_deadline_ms(self) -> int | None:
        while self._deadlines and self._deadlines[0][1] not in self._open:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _end(self, number: int, commit: BlockId | None) -> None:
        self._open.remove(number)
        self.done.append(ReadDone(number=number, commit=commit))
