"""Commits of a deploy in a sink's chain: their metadata, and its meaning for a start. Pure.

A deploy replaces all rows of a table and the chain's position in one commit. The checkpoint of the
run before knows nothing of it, so the next start continues from the table. The commit also names
the definition that it has replaced: a supervisor that starts the old file again is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.exactly_once.offset_chain import Tip

DEPLOY = "deploy"
"""The key in the metadata of a deploy's commit."""
DEPLOYED = "deployed"
"""The fact of each later commit: the newest swap or rollback, so that no log has to be read back to
it."""
SWAP, ROLLBACK, FENCE, PREPARE = "swap", "rollback", "fence", "prepare"
"""The steps. A fence changes no row and no offset: a running query finds that another run has
committed, and stops. After a prepare no run starts, neither of the old file nor of the new one,
until all tables of the pipeline are swapped or taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The metadata of a deploy's commit. `before`: the version that it replaced; `shadow`: the
    version of the shadow table that it took; `replaced`: the fingerprint of the definition whose
    rows it replaced, "" if there was none."""

    ident: str
    step: str
    before: int
    shadow: int = -1
    replaced: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.ident,
            "step": self.step,
            "before": self.before,
            "shadow": self.shadow,
            "replaced": self.replaced,
        }


def mark_of(said: Mapping[str, Any] | None, key: str = DEPLOY) -> Mark | None:
    """The mark of a commit with this metadata, or with DEPLOYED its newest swap or rollback; None
    without one."""
    found = (said or {}).get(key)
    if not isinstance(found, dict):
        return None
    return Mark(
        ident=str(found.get("id")),
        step=str(found.get("step")),
        before=int(found.get("before", -1)),
        shadow=int(found.get("shadow", -1)),
        replaced=str(found.get("replaced", "")),
    )


def is_deployed(tip: object) -> bool:
    """Whether a chain's newest commit is a deploy's: its start follows the table. A fence too: the
    commit that it follows may be a swap that no run has continued."""
    return isinstance(tip, Tip) and mark_of(tip.said) is not None


def replaced_by_deploy(said: Mapping[str, Any], own: str, file: str, sink: str) -> str:
    """Why a file may not continue a table; "" if it may. `own`: the fingerprint of its sink."""
    mark = mark_of(said, DEPLOYED)
    if mark is not None and mark.step == PREPARE:
        return (
            f"sink `{sink}`: a deploy ({mark.ident}) is in the middle of its swap: repeat "
            "`josefine pipeline deploy NEW.yaml --against OLD.yaml --swap`, or take it back with "
            "--rollback"
        )
    if mark is None or mark.replaced != own:
        return ""
    there = "OLD.yaml" if mark.step == ROLLBACK else "NEW.yaml"
    back = (
        f"deploy it again with `josefine pipeline deploy {file} --against {there}`"
        if mark.step == ROLLBACK
        else "take the deploy back with `josefine pipeline deploy "
        f"{there} --against {file} --rollback`"
    )
    return (
        f"sink `{sink}`: a deploy ({mark.ident}, {mark.step}) has replaced the rows of this file "
        f"({file}) by those of another: run that one, or {back}"
    )
