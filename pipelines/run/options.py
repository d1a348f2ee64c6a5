"""Command-line options of one run: the user's decisions that are not in the pipeline file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pipelines.base.errors import WrongUsageError
from pipelines.config.section import nearest
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.model.pipeline import Pipeline
from pipelines.model.plan import compile_plan
from pipelines.model.table_order import upstream_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of one run. `renames`: old name → new name. `skip_losses`: for this run only.
    `only`: the sinks that run; empty: all."""

    trust: Trust = Trust.NEITHER
    renames: Mapping[str, str] = field(default_factory=dict)
    new_chains: Collection[str] = ()
    skip_losses: bool = False
    only: Collection[str] = ()

    def sinks_of(self, pipeline: Pipeline) -> list[str]:
        """The sinks that run, in file order, but each after those whose tables it reads."""
        names = (name for name in pipeline.sinks if not self.only or name in self.only)
        return upstream_first(pipeline, names)


NO_WISHES = Wishes()


def wishes(
    pipeline: Pipeline,
    trust: Trust,
    renames: Collection[str],
    new_chains: Collection[str],
    skip_losses: bool,
    only: Collection[str] = (),
) -> Wishes:
    """Read the options' texts. Raises WrongUsageError for a name that the file does not have."""
    pairs = {}
    for text in renames:
        old, _, new = text.partition("=")
        if not old or not new:
            raise WrongUsageError(f"--rename {text}: expected OLD=NEW")
        _known(f"--rename {text}", new, [pipeline.name, *pipeline.sinks, *pipeline.sources])
        pairs[old] = new
    dead_letters = [f"dead_letter.{source}" for source in pipeline.sources]
    for name in new_chains:
        _known(f"--new-chain {name}", name, [*pipeline.sinks, *dead_letters])
    for name in only:
        _known(f"--sink {name}", name, [*pipeline.sinks])
        _with_leaders(pipeline, name, only)
    return Wishes(
        trust=trust,
        renames=pairs,
        new_chains=tuple(new_chains),
        skip_losses=skip_losses,
        only=tuple(only),
    )


def _with_leaders(pipeline: Pipeline, name: str, only: Collection[str]) -> None:
    """Raise WrongUsageError for a sink whose source has dead letters that another sink settles: in
    a run without that one, a start of their chain would be settled by the wrong offsets."""
    for source in compile_plan(pipeline).sinks[name].lettered:
        leader = source.sinks[0]
        if leader not in only:
            raise WrongUsageError(
                f"--sink {name}: sink `{leader}` settles the dead letters of source "
                f"`{source.source.name}`: give --sink {leader}, too"
            )


def _known(said: str, name: str, known: list[str]) -> None:
    if name not in known:
        hint = nearest(name, known) or f"; expected one of: {', '.join(known)}"
        raise WrongUsageError(f"{said}: the file has no `{name}`{hint}")
