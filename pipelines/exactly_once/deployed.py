"""Commits of a deploy in a sink's chain: what they say, and what a start makes of them. Pure.

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
"""The key in a commit's metadata."""
REPLACED = "replaced"
"""The fact of each later commit: the fingerprint of the definition that was replaced."""
SWAP, ROLLBACK, FENCE = "swap", "rollback", "fence"
"""The steps. A fence changes no row and no offset: a running query finds that another run has
committed, and stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a deploy's commit says of itself. `before`: the version that it replaced; `shadow`: the
    version of the shadow table that it took."""

    ident: str
    step: str
    before: int
    shadow: int = -1

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.ident, "step": self.step, "before": self.before, "shadow": self.shadow
        }  # fmt: skip


def mark_of(said: Mapping[str, Any] | None) -> Mark | None:
    """The mark of a commit with this metadata; None if it is not a deploy's."""
    found = (said or {}).get(DEPLOY)
    if not isinstance(found, dict):
        return None
    return Mark(
        ident=str(found.get("id")),
        step=str(found.get("step")),
        before=int(found.get("before", -1)),
        shadow=int(found.get("shadow", -1)),
    )


def is_deployed(tip: object) -> bool:
    """Whether a chain's newest commit is a deploy's: its start follows the table. A fence too: the
    commit that it follows may be a swap that no run has continued."""
    return isinstance(tip, Tip) and mark_of(tip.said) is not None


def replaced_by_deploy(said: Mapping[str, Any], own: str, file: str, sink: str) -> str:
    """Why a file may not continue a table; "" if it may. `own`: the fingerprint of its sink."""
    if said.get(REPLACED) != own:
        return ""
    return (
        f"sink `{sink}`: a deploy has replaced the rows of this file ({file}) by those of another: "
        "run that one. To come back, take the deploy back with `josefine pipeline deploy NEW.yaml "
        f"--against {file} --rollback`"
    )
