"""A deploy: what differs, shadow tables up to the live offsets, the diff of rows, swap, rollback.

The command has no state of its own. What is done is in the tables: a shadow's chain has its end
offsets, a live table's newest deploy commit names the deploy that it is of. So a repetition of the
command continues where a died one stopped, and two at once are one: the second one's commits find
the first one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base import failpoints
from pipelines.base.errors import RunError
from pipelines.deploy.examine import (
    Examiner,
    Seen,
    has_begun,
    has_swap,
    is_swapped,
    live_of,
    shadow_of_pair,
)
from pipelines.deploy.row_diff import RowDiff, diff_rows
from pipelines.deploy.shadow import (
    Pair,
    checkpoint_path,
    deploy_id,
    pairs_of,
    refusals,
    shadow_of,
)
from pipelines.deploy.swap import (
    Committer,
    Wanted,
    changes_since_swap,
    fence,
    prepare,
    rollback,
    swap,
)
from pipelines.deploy.table_log import remove_drafts, remove_folder
from pipelines.model.meaning import fingerprint
from pipelines.model.pipeline import Pipeline, Source
from pipelines.model.plan import compile_plan
from pipelines.report.events import Reporter
from pipelines.run.run import run_sinks
from pipelines.sinks.targets import target_of
from pipelines.sources.at_once import look_at_once
from pipelines.sources.josefine import Topics
from pipelines.sources.kinds import AnyKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 5
"""How often a swap fences and catches up, while a supervisor starts the old pipeline again."""


class _NoGroups(AnyKind):
    """The kind of a source whose run reports no offsets to consumer groups."""

    def advise(self, source: Source, group: str, ends: ByPartition) -> str:
        """The groups are those of the live pipeline."""
        return ""


class Deploy:
    """One deploy of two files. Raises RunError for files that cannot be deployed by rows."""

    def __init__(
        self,
        *,
        old: Pipeline,
        new: Pipeline,
        run: str,
        now_ms: Callable[[], int],
        tell: Callable[[str], None],
        look: Callable[[Source], Topics] = look_at_once,
        accepts_missing: bool = False,
    ) -> None:
        """`run`: a new id of this command. A line for each step and warning is passed on."""
        wrong = [*refusals(old, new)]
        if wrong:
            raise RunError("these files cannot be deployed by rows:\n  " + "\n  ".join(wrong))
        self.old, self.new, self._tell = old, new, tell
        self.ident = deploy_id(old, new)
        self.pairs = pairs_of(new, self.ident)
        self._plan, self._old_plan = compile_plan(new), compile_plan(old)
        self._by = Committer(ident=self.ident, run=run, now_ms=now_ms)
        self._examiner = Examiner(
            new, self.pairs, self.ident, look, tell, accepts_missing=accepts_missing
        )

    def examine(self) -> Seen:
        """Look at tables and topics. Raises RunError for what would lose rows, SetupError."""
        return self._examiner.examine()

    # -- shadow tables and their rows ------------------------------------------------------------

    def catch_up(self, spark: SparkSession, reporter: Reporter) -> Seen:
        """Run the new file into the shadow tables, up to where the live tables are now."""
        seen = self.examine()
        if not self._is_caught_up(seen):
            shadow = shadow_of(self.new, self.ident, seen.spans)
            result = run_sinks(spark, shadow, reporter, kind=_NoGroups())
            for failure in result.failures.values():
                raise RunError(f"the new file fails in its shadow tables: {failure}")
            if result.interrupted or not self._is_caught_up(seen):
                raise RunError("the shadow tables are not complete; repeat the command")
        failpoints.hit("mid_deploy", 1)
        return seen

    def _is_caught_up(self, seen: Seen) -> bool:
        """Whether each shadow is exactly where the spans end."""
        for pair in self.pairs:
            if pair.sink is None:
                continue
            tip, _ = shadow_of_pair(pair).tip()
            wanted = seen.ends_of(pair).ends
            if tip is None or any(tip.reached.ends.get(p) != end for p, end in wanted.items()):
                return False
        return True

    def diffs(self, spark: SparkSession, seen: Seen) -> Iterator[RowDiff]:
        """The difference of the rows of each sink that had a table."""
        for pair in self.pairs:
            tip, version = seen.at[pair.live]
            if pair.sink is None or tip is None or is_swapped(pair, self.ident):
                continue
            wanted = seen.ends_of(pair).ends
            if any(tip.reached.ends.get(p, end) != end for p, end in wanted.items()):
                self._examiner.once(
                    f"note: {pair.what} is behind the other sinks of its source: rows that it gets "
                    "next count as added"
                )
            keys = target_of(pair.sink).keys()
            yield diff_rows(spark, pair.sink.name, pair.live, version, pair.shadow, keys)

    # -- swap and rollback -----------------------------------------------------------------------

    def is_done(self) -> bool:
        """Whether every table has the rows of this deploy."""
        return all(is_swapped(pair, self.ident) for pair in self.pairs)

    def swap(self, spark: SparkSession, reporter: Reporter, seen: Seen) -> None:
        """Swap every table, each in one commit. `seen`: what was compared."""
        since = {live: version for live, (_, version) in seen.at.items()}
        for _ in range(ROUNDS):
            left = [pair for pair in self.pairs if not is_swapped(pair, self.ident)]
            for pair in left:
                fence(live_of(pair), self._by)
            failpoints.hit("mid_deploy", 2)
            fenced = self.catch_up(spark, reporter)
            # In order: a table that cannot be swapped now leaves those after it for the next round.
            if not all(prepare(live_of(pair), self._by) for pair in left if pair.sink):
                continue
            # Looked at again: in a folder of this machine Spark may overwrite another's commit.
            if all(self._swap(pair, fenced, since[pair.live]) for pair in left) and self.is_done():
                self.clean()
                return
        raise RunError(
            f"another run commits to the tables after each of {ROUNDS} fences: stop what runs "
            f"{self.old.file} and repeat the command; {self.how_to_leave()}"
        )

    def _swap(self, pair: Pair, seen: Seen, since: int) -> bool:
        if is_swapped(pair, self.ident):  # by the same command in another terminal
            return True
        facts: dict[str, Any] = {}
        replaced = ""
        if pair.sink is not None and pair.sink.name in self._old_plan.sinks:
            replaced = fingerprint(self._old_plan, pair.sink.name)
        if pair.sink is not None and self._plan.sinks[pair.sink.name].lettered:
            facts["dead_letters"] = self.new.dead_letters
        end = seen.ends_of(pair) if pair.sink is None else None
        want = Wanted(end=end, facts=facts, since=since, replaced=replaced)
        version = swap(live_of(pair), shadow_of_pair(pair), want, self._by)
        if version is not None:
            self._tell(f"{pair.what}: swapped in version {version} of {pair.live}")
            failpoints.hit("mid_deploy", 4)
        return version is not None

    def take_back(self) -> int:
        """Take the swaps of this deploy back; returns how many. Without Spark."""
        self._examiner.refuse_lost()
        for pair in self.pairs:
            if changes := changes_since_swap(live_of(pair), self.ident):
                self._examiner.once(
                    f"warning: {pair.live} has changes of rows since the swap that no run made; "
                    f"the rollback takes them back, too: {', '.join(changes)}"
                )
        done: set[str] = set()
        # Looked at again: in a folder of this machine Spark may overwrite another's commit.
        for _ in range(ROUNDS):
            before = len(done)
            for pair in self.pairs:
                if pair.sink and has_swap(pair, self.ident):
                    prepare(live_of(pair), self._by)
            failpoints.hit("mid_deploy", 5)
            for pair in self.pairs:
                done |= {pair.live} if self._take_back(pair) else set()
            if len(done) == before:
                break
        return len(done)

    def _take_back(self, pair: Pair) -> bool:
        replaced = fingerprint(self._plan, pair.sink.name) if pair.sink else ""
        version = rollback(live_of(pair), replaced, self._by)
        if version is not None:
            failpoints.hit("mid_deploy", 6)
            self._tell(f"{pair.what}: taken back in version {version} of {pair.live}")
        return version is not None

    def abort(self) -> None:
        """Remove the shadow tables. Raises RunError if some tables are swapped already."""
        swapped = [pair.what for pair in self.pairs if has_begun(pair, self.ident)]
        if swapped and any(shadow_of_pair(pair).reader().versions() for pair in self.pairs):
            raise RunError(
                f"the swap has begun: {', '.join(swapped)}; --swap finishes it, --rollback takes "
                "it back, after which --abort removes the shadow tables"
            )
        self.clean()

    def clean(self) -> None:
        """Remove what the shadow run and killed commands have left."""
        # A kill in between must leave what the next command can continue: no checkpoint that is
        # ahead of its tables, no table that is ahead of its dead letters.
        remove_folder(checkpoint_path(self.new, self.ident).removeprefix("file://"))
        for pair in reversed(self.pairs):
            remove_drafts(pair.live)
            remove_folder(f"{pair.shadow}_lost")
            remove_folder(pair.shadow)

    def how_to_leave(self) -> str:
        """The command that removes the shadow tables."""
        return f"`{self.command('--abort')}` removes the shadow tables"

    def command(self, option: str) -> str:
        """The command line of this deploy with another option."""
        return (
            f"josefine pipeline deploy {self.new.as_arguments} --against {self.old.file} {option}"
        )
