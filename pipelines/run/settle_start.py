"""The start of one sink, settled from its table, checkpoint, topics and dead letters.

Reads all of them, lets the pure modules decide and executes their decision, before any query runs.
Raises ChainError if a person has to decide. A crash may follow any step here: the next start finds
the finished steps in the tables and continues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base import failpoints
from pipelines.base.errors import ChainError
from pipelines.dead_letters.left_out import own_chain
from pipelines.exactly_once import verdict_messages
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import (
    Checkpoint,
    Start,
    Trust,
    Unreadable,
    dead_letters_gone,
    leaves_out,
    reconcile,
)
from pipelines.exactly_once.data_loss import losses, passing, standing
from pipelines.exactly_once.dead_letter_chain import Lettering, said_by, trusted
from pipelines.exactly_once.deployed import is_deployed
from pipelines.exactly_once.family_chain import is_held
from pipelines.exactly_once.legacy_checkpoint import Owner, whose
from pipelines.exactly_once.offset_chain import HandedOn, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import TakeOver, begins
from pipelines.exactly_once.startup_steps import Opening, Step, opening
from pipelines.exactly_once.state_chain import start_again, state_stop, store_stop
from pipelines.model.pipeline import Pipeline
from pipelines.model.plan import PipelinePlan, SinkPlan
from pipelines.run.options import Wishes
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.target import LetterChain, OpenTarget, SinkChain, TableAt
from pipelines.sources.josefine import Topics


@dataclass(frozen=True, slots=True)
class OfSource:
    """The dead letters of one of a sink's sources. `leads`: their chain is settled with this sink;
    `others`: the topics of the sources that this one is joined with."""

    lettering: Lettering[LetterChain]
    leads: bool
    others: Collection[str]


class Settling:
    """One sink's start. `letters`: the sink's sources whose bad records become dead letters.

    `files` is the checkpoint to continue with; `old_files` is its path in the old layout.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        sink: SinkPlan,
        opened: OpenTarget,
        losses: TableAt,
        letters: Sequence[OfSource],
        files: CheckpointFiles,
        old_files: CheckpointFiles,
        topics: Topics,
        wishes: Wishes,
    ) -> None:
        self._pipeline, self._of = plan.pipeline, sink
        self._opened, self._losses = opened, losses
        self._letters = letters
        self.files = files
        self._new_files = files
        self._old_files = old_files
        self._topics = topics
        self._wishes = wishes
        self.warnings: list[str] = []
        """The losses that this start skipped by the user's options."""
        # A table, not an `if` per step: `startup_steps` decides which are taken, in which order.
        self._take: Mapping[Step, Callable[[Opening], None]] = {
            Step.RECORD: self._record,
            Step.ANCHOR: self._anchor,
            Step.SET_ASIDE: self._set_aside,
            Step.PASS_LETTERS: self._pass_letters,
            Step.PASS: self._pass,
            Step.NOTE: self._note,
        }

    @property
    def _chain(self) -> SinkChain:
        return self._opened.chain

    @property
    def _trust(self) -> Trust:
        """The user's `--trust`, ignored for a state: it would set aside the only copy of it."""
        return Trust.NEITHER if self._of.stateful else self._wishes.trust

    def settle(self, fits: Callable[[Mapping[str, Any]], None]) -> Start:
        """The start, which both chains follow. Raises ChainError when the sides disagree.

        `fits` gets the metadata of the sink's last commit before this start makes another one. It
        raises when the table cannot take the sink's rows.
        """
        trust = self._trust
        found = self._loaded(self._chain, ())
        fits(found.said if isinstance(found, Tip) else {})
        checkpoint = self._checkpoint(found)
        assigned = self._of.source.assigned
        # The held tables of a family read again from before the checkpoint; the other tables leave
        # out the rows that they have. A deploy has moved the table, not the checkpoint.
        # Only `--trust checkpoint` passes over what the tables lack.
        if trust is Trust.NEITHER and (is_held(found) or is_deployed(found)):
            trust = Trust.TABLE
        outcome = reconcile(checkpoint, found, trust, assigned=assigned)
        if isinstance(outcome, Start) and outcome.tip is not None:
            outcome = self._with_topics(outcome)
        outcome = self._of_state(checkpoint, found) or outcome
        if isinstance(outcome, Stop):
            raise self._stopped(outcome, checkpoint, found)
        if self._chain_alone(outcome, checkpoint):
            if self._of.stateful:
                stop = Stop(verdict=Verdict.STATE_STAYS, detail="`assign` leaves partitions out")
                raise self._stopped(stop, checkpoint, found)
            outcome = replace(outcome, set_checkpoint_aside=True)
        if self._of.stateful:
            outcome = start_again(outcome, checkpoint)
        # Decide everything before the first step: a refused start changes no table.
        at = standing(outcome, checkpoint)
        lost = losses(
            at,
            self._topics.latest.topic_ids,
            self._topics.bounds(),
            skip=self._skips_losses(),
        )
        if isinstance(lost, Stop):
            raise self._stopped(lost, checkpoint, found)
        plan = opening(outcome, checkpoint, at, lost, stateful=self._of.stateful is not None)
        self._chain.follow(outcome.tip)
        for each in self._letters:
            if each.leads:
                self._settle_dead_letters(each, outcome)
            each.lettering.stands_behind(outcome.tip, each.others)
        self._vouch()
        for step in plan.steps:
            self._take[step](plan)
        if checkpoint is None:
            self.files.sweep()
        return plan.start

    def _of_state(
        self, checkpoint: Checkpoint | None, found: Tip | Unreadable | None
    ) -> Stop | None:
        """Why the sink's state does not match its table; None if it does or there is none."""
        if self._of.stateful is None:
            return None
        if stop := store_stop(self._of.stateful, self.files.state_store()):
            return stop
        query = self.files.query_id() if checkpoint else ""
        return state_stop(checkpoint, query, found, has_state=self.files.has_state())

    def _skips_losses(self) -> bool:
        skips = self._of.source.skips_losses or self._wishes.skip_losses
        return skips and self._of.stateful is None

    def _chain_alone(self, start: Start, checkpoint: Checkpoint | None) -> bool:
        """Whether to continue from the table alone, because the source does not read all partitions
        of its checkpoint any more. Both agree, and the table keeps all end offsets."""
        knows = start.tip is not None and bool(start.tip.reached.ends)
        return knows and leaves_out(checkpoint, self._of.source.assigned)

    def _checkpoint(self, found: Tip | Unreadable | None) -> Checkpoint | None:
        """This sink's checkpoint, also one in the old layout; sets `files` to its place."""
        trust = self._trust
        here = self._new_files.read()
        if here is not None:
            return here
        old = self._old_files.read()
        if old is None:
            return None
        topics = self._topics.latest.topic_ids
        owner = whose(old, self._old_files.query_id(), found, self._chain.queries, topics)
        if owner is Owner.UNKNOWN and trust is Trust.NEITHER:
            text = verdict_messages.unnamed_checkpoint(
                self._pipeline.as_arguments,
                self._of.name,
                self._old_files.folder,
                self._new_files.folder,
                old,
            )
            raise ChainError(text)
        if owner is Owner.OURS or (owner is Owner.UNKNOWN and trust is Trust.CHECKPOINT):
            self.files = self._old_files
            return old
        return None

    def _record(self, plan: Opening) -> None:
        self._do(self._chain, lambda: self._opened.record_losses(plan.lost))
        failpoints.hit("mid_loss", 1)

    def _anchor(self, plan: Opening) -> None:
        commit = plan.anchor
        assert commit is not None
        self._do(self._chain, lambda: self._chain.move(commit))
        failpoints.hit("mid_loss", 2)

    def _set_aside(self, plan: Opening) -> None:
        self.files.set_aside()
        self.files = self._new_files
        failpoints.hit("after_set_aside")

    def _pass_letters(self, plan: Opening) -> None:
        for lettering in (each.lettering for each in self._letters if each.leads):
            dead = lettering.chain
            moved = passing(dead.tip, dead.tip.reached, plan.lost) if dead.tip else None
            if moved is not None:
                self._do(dead, partial(dead.move, moved))
                failpoints.hit("mid_loss", 3)
                lettering.begins(dead.tip, dead.tip)
                self._vouch()

    def _pass(self, plan: Opening) -> None:
        commit = plan.passes
        assert commit is not None
        said = [[*each.partition, each.start, each.end] for each in plan.lost]
        self._do(self._chain, lambda: self._chain.move(commit, lost=said))

    def _note(self, plan: Opening) -> None:
        tip = plan.start.tip
        self.files.continues(tip.reached.ends if tip else {})

    def _do(self, chain: SinkChain, commit: Callable[[], None]) -> None:
        try:
            commit()
        except StoppedError as stopped:
            name, path = chain.link.name, chain.path
            text = verdict_messages.stopped_for_others(
                self._pipeline.as_arguments, name, path, stopped.stop, ()
            )
            raise ChainError(text) from stopped

    def _stopped(
        self, stop: Stop, checkpoint: Checkpoint | None, found: Tip | Unreadable | None
    ) -> ChainError:
        return ChainError(
            verdict_messages.stopped_at_start(
                self._pipeline.as_arguments,
                self._of.name,
                self._chain.path,
                self.files.folder,
                stop,
                checkpoint,
                found,
                verdict_messages.Losing(
                    table=self._losses.told,
                    topics=sorted(self._topics.latest.topic_ids),
                    bootstrap=self._of.source.bootstrap,
                ),
                self._of.stateful.name if self._of.stateful else "",
            )
        )

    def _loaded(self, chain: SinkChain, siblings: Collection[str]) -> Tip | Unreadable | None:
        """The table's last commit of this name, or of the name that it had before."""
        found = chain.load()
        if isinstance(found, (Tip, Unreadable)):
            return found
        others = chain.others()
        # A state belongs to the checkpoint of its own name, so a stateful sink takes no chain over.
        stays = self._of.stateful is not None and chain is self._chain
        outcome = begins(
            chain.link.name,
            others,
            self._topics.latest.topic_ids,
            siblings=siblings,
            renames={} if stays else self._wishes.renames,
            new_chains=self._wishes.new_chains,
        )
        if isinstance(outcome, Stop) and stays:
            detail = f"{outcome.detail}; a state continues under its own name only: restore it"
            raise self._stopped(replace(outcome, detail=detail), None, None)
        if isinstance(outcome, Stop):
            name, path = chain.link.name, chain.path
            raise ChainError(
                verdict_messages.stopped_for_others(
                    self._pipeline.as_arguments, name, path, outcome, others
                )
            )
        if isinstance(outcome, TakeOver):
            other = outcome.other
            self._do(chain, lambda: chain.take_over(other))
            found = chain.load()
            assert isinstance(found, Tip)
            return found
        if isinstance(found, HandedOn):
            return Tip(reached=TopicOffsets(), txn_version=found.txn_version)
        return None

    def _with_topics(self, start: Start) -> Start | Stop:
        """The start without recreated topics: another id means another topic of the same name."""
        tip = start.tip
        assert tip is not None
        gone = tip.reached.recreated(self._topics.latest.topic_ids)
        if not gone:
            return start
        partitions = tuple(sorted(p for p in tip.reached.ends if p[0] in gone))
        if self._trust is not Trust.TABLE:
            return Stop(verdict=Verdict.TOPIC_RECREATED, partitions=partitions)
        kept = replace(tip, reached=tip.reached.without(gone))
        return Start(at=kept.reached.ends or None, tip=kept, set_checkpoint_aside=True)

    def _vouch(self) -> None:
        """Add the dead letters' end offsets to the start's commits, as in a batch's commit: the
        next start detects dead letters that were deleted since."""
        link = self._chain.link
        said = said_by(each.lettering for each in self._letters)
        self._chain.link = replace(link, facts={**link.facts, **said})

    def _settle_dead_letters(self, letters: OfSource, start: Start) -> None:
        """Load the dead-letter chain and give it its position. Raises ChainError if the table is
        unreadable or lost commits, unless `--trust` passes over it."""
        dead = letters.lettering.chain
        trust = self._wishes.trust
        found = self._loaded(dead, [*_chains_of_letters(self._pipeline)])
        is_readable = not isinstance(found, Unreadable)
        if isinstance(found, Unreadable):
            if trust is Trust.NEITHER:
                stop = Stop(verdict=Verdict.TABLE_UNREADABLE, detail=found.hint)
                raise ChainError(
                    verdict_messages.stopped_at_start(
                        self._pipeline.as_arguments,
                        dead.link.sink,
                        dead.path,
                        self.files.folder,
                        stop,
                        None,
                        found,
                    )
                )
            found = Tip(reached=TopicOffsets(), txn_version=found.txn_version)
        where = self._pipeline.dead_letters
        if is_readable and dead_letters_gone(start.tip, found, where, letters.others):
            if trust is Trust.NEITHER:
                stop = Stop(verdict=Verdict.DEAD_LETTERS_GONE)
                raise ChainError(
                    verdict_messages.dead_letters_gone(
                        self._pipeline.as_arguments, self._of.name, dead.path, stop
                    )
                )
            self.warnings.append(verdict_messages.letters_left_out(dead.path))
        # With `--trust` the dead letters follow the sink's new start, not their own last commit.
        follows = found
        if trust is not Trust.NEITHER:
            follows = trusted(found, start.tip, self._topics.latest.topic_ids)
        letters.lettering.begins(found, follows)


def _chains_of_letters(pipeline: Pipeline) -> Iterator[str]:
    """The names of all chains in the dead-letter table: of each source, of each sink's own."""
    for source in pipeline.sources:
        yield f"dead_letter.{source}"
        yield from (own_chain(source, sink) for sink in pipeline.sinks)
