"""Where one sink of a run starts: its table, checkpoint, topics and dead letters, brought together.

Reads what each of them says, lets the pure modules decide and does what they decided, before any
query runs. Raises ChainError where a person has to decide. Whatever is done here may be the last
before a crash: the next start finds it in the tables and goes on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from josefine_spark.topic_offsets import TopicOffsets
from pipelines import failpoints, messages
from pipelines.chain import HandedOn, Stop, Tip, Verdict
from pipelines.checkpoint import CheckpointFiles
from pipelines.delta_chain import DeltaChain, StoppedError
from pipelines.errors import ChainError
from pipelines.model import Pipeline, Sink
from pipelines.other_chains import TakeOver, begins
from pipelines.reconcile import Start, Trust, Unreadable, reconcile
from pipelines.sources import Topics
from pipelines.wishes import Wishes

if TYPE_CHECKING:
    from collections.abc import Collection


class Settling:
    """One sink's start. `dead`: the chain of the dead letters that it writes, if it does."""

    def __init__(
        self,
        pipeline: Pipeline,
        sink: Sink,
        chain: DeltaChain,
        dead: DeltaChain | None,
        files: CheckpointFiles,
        topics: Topics,
        wishes: Wishes,
    ) -> None:
        self._pipeline = pipeline
        self._sink = sink
        self._chain = chain
        self._dead = dead
        self._files = files
        self._topics = topics
        self._wishes = wishes

    def settle(self) -> Start:
        """Where to start; both chains follow it. Raises ChainError when the sides disagree."""
        trust = self._wishes.trust
        found = self._loaded(self._chain, ())
        checkpoint = self._files.read()
        outcome = reconcile(checkpoint, found, trust)
        if isinstance(outcome, Start) and outcome.tip is not None:
            outcome = self._with_topics(outcome)
        if isinstance(outcome, Stop):
            raise ChainError(
                messages.stopped_at_start(
                    self._pipeline.as_arguments,
                    self._sink.name,
                    self._chain.path,
                    self._files.folder,
                    outcome,
                    checkpoint,
                    found,
                )
            )
        if outcome.set_checkpoint_aside and checkpoint is not None:
            self._files.set_aside()
            failpoints.hit("after_set_aside")
        self._chain.follow(outcome.tip)
        if self._dead is not None:
            self._settle_dead_letters(self._dead, outcome)
        return outcome

    def _loaded(self, chain: DeltaChain, beside: Collection[str]) -> Tip | Unreadable | None:
        """What the table says of this name, or of the one that it had before."""
        found = chain.load()
        if isinstance(found, (Tip, Unreadable)):
            return found
        others = chain.others()
        outcome = begins(
            chain.link.name,
            others,
            self._topics.latest.topic_ids,
            beside=beside,
            renames=self._wishes.renames,
            new_chains=self._wishes.new_chains,
        )
        if isinstance(outcome, Stop):
            raise ChainError(
                messages.stopped_for_others(
                    self._pipeline.as_arguments, chain.link.name, chain.path, outcome, others
                )
            )
        if isinstance(outcome, TakeOver):
            try:
                chain.take_over(outcome.other)
            except StoppedError as stopped:
                raise ChainError(
                    messages.stopped_for_others(
                        self._pipeline.as_arguments, chain.link.name, chain.path, stopped.stop, ()
                    )
                ) from stopped
            found = chain.load()
            assert isinstance(found, Tip)
            return found
        if isinstance(found, HandedOn):
            return Tip(reached=TopicOffsets(), txn_version=found.txn_version)
        return None

    def _with_topics(self, start: Start) -> Start | Stop:
        """A topic with another id than the table recorded is another topic of the same name."""
        tip = start.tip
        assert tip is not None
        gone = tip.reached.recreated(self._topics.latest.topic_ids)
        if not gone:
            return start
        partitions = tuple(sorted(p for p in tip.reached.ends if p[0] in gone))
        if self._wishes.trust is not Trust.TABLE:
            return Stop(verdict=Verdict.TOPIC_RECREATED, partitions=partitions)
        kept = replace(tip, reached=tip.reached.without(gone))
        return Start(at=kept.reached.ends or None, tip=kept, set_checkpoint_aside=True)

    def _settle_dead_letters(self, dead: DeltaChain, start: Start) -> None:
        trust = self._wishes.trust
        found = self._loaded(dead, [f"dead_letter.{name}" for name in self._pipeline.sources])
        if isinstance(found, Unreadable):
            if trust is Trust.NEITHER:
                stop = Stop(verdict=Verdict.TABLE_UNREADABLE, detail=found.hint)
                raise ChainError(
                    messages.stopped_at_start(
                        self._pipeline.as_arguments,
                        dead.link.sink,
                        dead.path,
                        self._files.folder,
                        stop,
                        None,
                        found,
                    )
                )
            found = Tip(reached=TopicOffsets(), txn_version=found.txn_version)
        if found is not None and trust is not Trust.NEITHER and start.tip is not None:
            settled, reached = start.tip.reached, found.reached
            gone = reached.recreated(settled.topic_ids)
            gone |= reached.recreated(self._topics.latest.topic_ids)
            reached = reached.without(gone)
            # What the user settled for the sink holds for its dead letters: never behind it.
            ends = {p: max(e, settled.ends.get(p, 0)) for p, e in reached.ends.items()}
            found = replace(found, reached=replace(reached, ends=ends))
        dead.follow(found)
