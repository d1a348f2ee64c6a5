"""Every cell of every table: what is listed goes where the table says, what is not raises."""

from itertools import product

import pytest

from josefine_broker.base.errors import Fatal
from raft.errors import InvariantBroken
from tests.state_machines import DECISIONS, MACHINES, Decision, StateMachine

BY_FILE = pytest.mark.parametrize("machine", MACHINES, ids=[each.file for each in MACHINES])


@BY_FILE
def test_a_listed_event_leads_where_the_table_says(machine: StateMachine) -> None:
    walked = {pair: machine.step(*pair) for pair in machine.transitions}

    assert walked == machine.transitions


@BY_FILE
def test_an_unlisted_event_raises(machine: StateMachine) -> None:
    every = product(machine.states, machine.events)
    for pair in [each for each in every if each not in machine.transitions]:
        with pytest.raises((Fatal, InvariantBroken)):
            machine.step(*pair)


@BY_FILE
def test_every_state_is_reached_and_every_event_leads_somewhere(machine: StateMachine) -> None:
    reached = {*machine.transitions.values(), next(iter(machine.states))}

    assert reached == set(machine.states)
    assert {event for _, event in machine.transitions} == set(machine.events)


@pytest.mark.parametrize("decision", DECISIONS, ids=[each.file for each in DECISIONS])
def test_a_decision_is_listed_for_every_pair_of_facts_and_made_so(decision: Decision) -> None:
    every = list(product(decision.rows, decision.columns))

    assert list(decision.cells) == every
    assert {pair: decision.decide(*pair) for pair in every} == decision.cells
    assert set(decision.cells.values()) == set(decision.outcomes)
