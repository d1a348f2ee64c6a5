"""What becomes of each sink of a run when one of them fails: a literal table, and who may go on.

One sink's failure is its own: the others go on to their end. It is begun again by itself where
`retries` grants it, but where records may be lost and passed over: the dead letters' chain, which
the sinks of a source share, is moved behind them by the first sink that is prepared, so all begin
again. Of the failures that end a run whole, `PipelineError.ends_run` tells. Pure: times are
arguments, in seconds of one clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from josefine_broker.base.errors import Fatal
from pipelines.base.errors import PipelineError, RunError
from pipelines.model.retry_policy import LOST, Restart, Retry, Starts


class Life(Enum):
    """What a sink does in a run."""

    PREPARED = "prepared"  # where it starts is settled, or is about to be; its query is not there
    RUNS = "runs"  # its query is there
    RESTS = "rests"  # it failed, and is begun again after a pause
    ENDED = "ended"  # it has all that there was to read
    FAILED = "failed"  # it failed, and this run does not begin it again


class Turn(Enum):
    """What happens to it."""

    BEGIN = "begin"  # its query starts
    END = "end"  # its query ends by itself
    PAUSE = "pause"  # a failure, perhaps another sink's, after which it is begun again
    FAIL = "fail"  # a failure after which it is not


TRANSITIONS: dict[tuple[Life, Turn], Life] = {
    (Life.PREPARED, Turn.BEGIN): Life.RUNS,
    (Life.PREPARED, Turn.PAUSE): Life.RESTS,
    (Life.RUNS, Turn.END): Life.ENDED,
    (Life.RUNS, Turn.PAUSE): Life.RESTS,
    (Life.RUNS, Turn.FAIL): Life.FAILED,
    (Life.RESTS, Turn.BEGIN): Life.RUNS,
    (Life.RESTS, Turn.PAUSE): Life.RESTS,
    (Life.RESTS, Turn.FAIL): Life.FAILED,
}
"""Nothing leads out of ENDED and FAILED: the next run looks at such a sink again."""

OVER = frozenset({Life.ENDED, Life.FAILED})


class After(Enum):
    """What follows a failure."""

    SINK_AGAIN = "the sink is begun again by itself"
    ALL_AGAIN = "all sinks are begun again"
    SINK_ENDS = "the others go on without the sink"
    ALL_END = "the run ends"


def next_life(life: Life, turn: Turn) -> Life:
    """Raises Fatal for a pair that the table does not list."""
    after = TRANSITIONS.get((life, turn))
    if after is None:
        raise Fatal(f"a sink that is {life.value} cannot take {turn.value}")
    return after


def after(failure: BaseException, retry: Retry | None, *, moves_letters: bool) -> After:
    """`retry`: what `Starts` grants, None for nothing. `moves_letters`: the next start may find
    that records were lost, and pass over them in its source's chain of dead letters, too."""
    if isinstance(failure, PipelineError) and failure.ends_run:
        return After.ALL_END
    if retry is None:
        return After.SINK_ENDS
    return After.ALL_AGAIN if retry is LOST or moves_letters else After.SINK_AGAIN


class SinkLives:
    """The sinks of one run. Mutable: what each does, since when, why it failed, and how often it
    was begun."""

    def __init__(self, sinks: Iterable[str], restart: Restart | None) -> None:
        self.lives = dict.fromkeys(sinks, Life.PREPARED)
        self.failures: dict[str, PipelineError] = {}
        self._starts = {sink: Starts(restart) for sink in self.lives}
        self._begun_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}

    def _on(self, sink: str, turn: Turn) -> None:
        self.lives[sink] = next_life(self.lives[sink], turn)

    def prepare(self, sink: str, now_s: float) -> None:
        """What fails from here on fails of this start."""
        self._begun_s[sink] = now_s

    def begin(self, sink: str, now_s: float) -> None:
        """Its query is about to start."""
        self._on(sink, Turn.BEGIN)
        self._begun_s[sink] = now_s

    def end(self, sink: str) -> None:
        """It has read all."""
        self._on(sink, Turn.END)

    def fail(self, sink: str, failure: PipelineError) -> None:
        """It is not begun again, for this reason."""
        self._on(sink, Turn.FAIL)
        self.failures[sink] = failure

    def pause(self, sink: str, due_s: float) -> None:
        """It is begun again from `due_s` on."""
        self._on(sink, Turn.PAUSE)
        self._due_s[sink] = due_s

    def well(self, sink: str) -> None:
        """A batch of it is done that was not there before."""
        self._starts[sink].well()

    def granted(
        self, sink: str, failure: BaseException, says: str, *, skips_losses: bool, now_s: float
    ) -> Retry | None:
        """Ask after each failure, `says` in our words; None: it is not begun again."""
        begun_s = self._begun_s[sink]
        starts = self._starts[sink]
        return starts.next(failure, says, skips_losses=skips_losses, begun_s=begun_s, now_s=now_s)

    def running(self) -> list[str]:
        """Those with a query."""
        return [sink for sink, life in self.lives.items() if life is Life.RUNS]

    def awake(self) -> list[str]:
        """Those with a query, or about to have one."""
        awake = (Life.PREPARED, Life.RUNS)
        return [sink for sink, life in self.lives.items() if life in awake]

    def left(self) -> list[str]:
        """Those that are not over, in file order."""
        return [sink for sink, life in self.lives.items() if life not in OVER]

    def due(self, now_s: float) -> list[str]:
        """Those whose pause is over."""
        resting = [sink for sink, life in self.lives.items() if life is Life.RESTS]
        return [sink for sink in resting if self._due_s[sink] <= now_s]


def together(failures: Iterable[PipelineError]) -> PipelineError | None:
    """The failures of a run as one; the only one as it is, also where several sinks met it."""
    found = list({str(each): each for each in failures}.values())
    if len(found) < 2:
        return found[0] if found else None
    return RunError("\n".join(str(each) for each in found))
