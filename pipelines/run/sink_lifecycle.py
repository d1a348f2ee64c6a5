"""State machine of the sinks of a run: its transitions, and the effect of one sink's failure. Pure.

A sink's failure does not stop the others. The sink starts again by itself if `retry_policy` grants
it. If its start may skip lost records, all sinks start again: they share the source's dead-letter
chain, and the first prepared sink moves it past the lost range. `PipelineError.ends_run` marks the
failures that end the whole run. Times are arguments, in seconds of one clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from josefine_broker.base.errors import Fatal
from pipelines.base.errors import PipelineError, RunError
from pipelines.model.retry_policy import LOST, Restart, Retry, Starts


class Life(Enum):
    """The state of a sink in a run."""

    PREPARED = "prepared"  # its start is settled, or about to be; it has no query yet
    RUNS = "runs"  # its query runs
    RESTS = "rests"  # it failed, and starts again after a pause
    ENDED = "ended"  # it has read all its input
    FAILED = "failed"  # it failed, and this run does not start it again


class Turn(Enum):
    """An event of a sink."""

    BEGIN = "begin"  # its query starts
    END = "end"  # its query ends by itself
    PAUSE = "pause"  # a failure, perhaps another sink's, after which it starts again
    FAIL = "fail"  # a failure after which it does not


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
"""ENDED and FAILED are final in a run: the next run starts such a sink again."""

OVER = frozenset({Life.ENDED, Life.FAILED})


class After(Enum):
    """The effect of a failure."""

    SINK_AGAIN = "only the sink starts again"
    ALL_AGAIN = "all sinks start again"
    SINK_ENDS = "the others continue without the sink"
    ALL_END = "the run ends"


POLL_MIN_S, POLL_MAX_S = 0.05, 0.5
POLLS_OF_INTERVAL = 10


def poll_s(every_ms: int | None) -> float:
    """The pause between two looks at a run's queries. Each asks the JVM about each sink: 20 times a
    second it was two thirds of what a run costs that waits for records. A run without an interval
    should end as soon as its queries do; one with an interval notices a dead query soon enough."""
    if every_ms is None:
        return POLL_MIN_S
    return min(POLL_MAX_S, max(POLL_MIN_S, every_ms / 1000 / POLLS_OF_INTERVAL))


def next_life(life: Life, turn: Turn) -> Life:
    """The state after an event. Raises Fatal for a pair that `TRANSITIONS` does not list."""
    after = TRANSITIONS.get((life, turn))
    if after is None:
        raise Fatal(f"a sink that is {life.value} cannot take {turn.value}")
    return after


def after(failure: BaseException, retry: Retry | None, *, moves_letters: bool) -> After:
    """The effect of a failure. `retry`: granted by `Starts`, None if it is not. `moves_letters`:
    the next start may find lost records and skip them in the dead-letter chain, too."""
    if isinstance(failure, PipelineError) and failure.ends_run:
        return After.ALL_END
    if retry is None:
        return After.SINK_ENDS
    return After.ALL_AGAIN if retry is LOST or moves_letters else After.SINK_AGAIN


class SinkLives:
    """The sinks of one run. Mutable: each sink's state, start time, failure and starts."""

    def __init__(self, sinks: Iterable[str], restart: Restart | None) -> None:
        self.lives = dict.fromkeys(sinks, Life.PREPARED)
        self.failures: dict[str, PipelineError] = {}
        self._starts = {sink: Starts(restart) for sink in self.lives}
        self._begun_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}

    def _on(self, sink: str, turn: Turn) -> None:
        self.lives[sink] = next_life(self.lives[sink], turn)

    def prepare(self, sink: str, now_s: float) -> None:
        """Note the start's time: failures from here on count for this start."""
        self._begun_s[sink] = now_s

    def begin(self, sink: str, now_s: float) -> None:
        """Its query starts."""
        self._on(sink, Turn.BEGIN)
        self._begun_s[sink] = now_s

    def end(self, sink: str) -> None:
        """It has read all its input."""
        self._on(sink, Turn.END)

    def fail(self, sink: str, failure: PipelineError) -> None:
        """It failed and does not start again."""
        self._on(sink, Turn.FAIL)
        self.failures[sink] = failure

    def pause(self, sink: str, due_s: float) -> None:
        """It starts again at `due_s` or later."""
        self._on(sink, Turn.PAUSE)
        self._due_s[sink] = due_s

    def well(self, sink: str) -> None:
        """It has committed a new batch."""
        self._starts[sink].well()

    def granted(
        self, sink: str, failure: BaseException, reason: str, *, skips_losses: bool, now_s: float
    ) -> Retry | None:
        """Whether the sink may start again after a failure; None: no. `reason`: for the user."""
        begun_s = self._begun_s[sink]
        starts = self._starts[sink]
        return starts.next(failure, reason, skips_losses=skips_losses, begun_s=begun_s, now_s=now_s)

    def running(self) -> list[str]:
        """The sinks with a query."""
        return [sink for sink, life in self.lives.items() if life is Life.RUNS]

    def awake(self) -> list[str]:
        """The sinks with a query, or about to have one."""
        awake = (Life.PREPARED, Life.RUNS)
        return [sink for sink, life in self.lives.items() if life in awake]

    def left(self) -> list[str]:
        """The sinks that are not finished, in file order."""
        return [sink for sink, life in self.lives.items() if life not in OVER]

    def due(self, now_s: float) -> list[str]:
        """The paused sinks whose pause is over."""
        resting = [sink for sink, life in self.lives.items() if life is Life.RESTS]
        return [sink for sink in resting if self._due_s[sink] <= now_s]


def together(failures: Iterable[PipelineError]) -> PipelineError | None:
    """The failures of a run as one error; equal ones of several sinks count once."""
    found = list({str(each): each for each in failures}.values())
    if len(found) < 2:
        return found[0] if found else None
    return RunError("\n".join(str(each) for each in found))
