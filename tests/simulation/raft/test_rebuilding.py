"""Members that lose a damaged chain, not their promises, break no rule of Raft.

More of them: `python -m tests.simulation.raft.rebuilding SEED --seeds N [--changes]`.
"""

from __future__ import annotations

import pytest

from tests.simulation.raft.rebuilding import rebuild_lives

pytestmark = pytest.mark.timeout(600)

FIRST = 16
"""Seed 20 catches a vote that forgets the acknowledged head, seed 16 a term that is forgotten."""


@pytest.mark.parametrize(
    "seeds", [pytest.param(20, id="daily"), pytest.param(100, id="all", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("changes", [False, True])
def test_members_rebuilt_from_their_promises_keep_every_rule(seeds: int, changes: bool) -> None:
    met = rebuild_lives(FIRST, seeds, 3, changes=changes)

    assert met["chain rebuilt"] >= 1
    assert met["block committed"] > 20 * seeds
