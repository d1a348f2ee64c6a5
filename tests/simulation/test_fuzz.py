"""Damaged frames, by the thousand: what is refused is the frame, and nothing else is lost.

The whole of it by hand: python -m tests.simulation.fuzz 100000, and the same of fuzz_sessions; or
`pytest -m slow tests/simulation/test_fuzz.py`.
"""

from __future__ import annotations

import pytest

from josefine_broker.engine.cluster import admission
from raft import InvariantBroken, plausible
from tests.simulation import fuzz, fuzz_sessions

MEMORY_KB_MAX = 100_000
ALL = 100_000


def test_damaged_raft_frames_break_nothing_but_themselves() -> None:
    """Checklist row 96."""
    met = fuzz.attack_boards(1, 2_000)

    for outcome in ("no message", "refused at the door", "implausible", fuzz.TAKEN):
        assert met[outcome] > 100, met


def test_damaged_greetings_heartbeats_and_questions_end_their_connection_only() -> None:
    """Checklist row 96."""
    met = fuzz_sessions.attack_sessions(1, 2_000)

    for outcome in ("refused at once", "refused", "taken"):
        assert met[outcome] > 100, met


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("run", [fuzz.attack_boards, fuzz_sessions.attack_sessions])
def test_a_hundred_thousand_of_each_take_no_memory(run: object) -> None:
    before_kb = fuzz.peak_kb()

    met = run(100, ALL)  # type: ignore[operator]

    assert sum(met.values()) >= ALL
    assert fuzz.peak_kb() - before_kb < MEMORY_KB_MAX


def test_messages_that_cannot_be_true_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: nobody looks at what a message says."""
    monkeypatch.setattr(plausible, "why_not", lambda _core, _message: None)

    with pytest.raises(InvariantBroken):
        fuzz.attack_boards(2, fuzz.ATTACKS_PER_BOARD)


def test_strangers_that_are_listened_to_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(admission.LISTENS, admission.Speech.RAFT, frozenset(admission.Standing))

    with pytest.raises(AssertionError):
        fuzz.attack_boards(1, fuzz.ATTACKS_PER_BOARD)


def test_values_of_another_type_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stopped every broker when they were committed."""
    monkeypatch.setattr(admission, "is_typed", lambda _value, _hint: True)

    with pytest.raises((TypeError, AttributeError, ValueError, AssertionError)):
        fuzz_sessions.attack_sessions(1, 2_000)
