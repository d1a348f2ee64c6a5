"""Command-line options of one run: the user's decisions that are not in the pipeline file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pipelines.base.errors import WrongUsageError
from pipelines.config.section import nearest
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.model.pipeline import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of one run. `renames`: old name → new name. `skip_losses`: for this run only."""

    trust: Trust = Trust.NEITHER
    renames: Mapping[str, str] = field(default_factory=dict)
    new_chains: Collection[str] = ()
    skip_losses: bool = False


NO_WISHES = Wishes()


def wishes(
    pipeline: Pipeline,
    trust: Trust,
    renames: Collection[str],
    new_chains: Collection[str],
    skip_losses: bool,
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
    return Wishes(trust=trust, renames=pairs, new_chains=tuple(new_chains), skip_losses=skip_losses)


def _known(said: str, name: str, known: list[str]) -> None:
    if name not in known:
        hint = nearest(name, known) or f"; expected one of: {', '.join(known)}"
        raise WrongUsageError(f"{said}: the file has no `{name}`{hint}")
