"""The state machines and decisions with a literal table, and reference/state-machines.md from
them.

A state's meaning is the comment beside it in the code, so the page cannot say anything else.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import count
from types import SimpleNamespace
from typing import Any

from josefine_broker.client import connection
from josefine_broker.engine.cluster import enrolment, frames, joining
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.groups import states
from josefine_broker.engine.groups.consumer import states as consumer_states
from josefine_broker.engine.groups.consumer.values import ConsumerGroup, ConsumerMember
from josefine_broker.engine.groups.group import Group, GroupCounts
from josefine_broker.engine.groups.share import states as share_states
from josefine_broker.engine.groups.values import Member
from josefine_broker.engine.partition import partition, replica_fetch, replica_role
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.engine.partition.repair import repair
from josefine_broker.engine.partition.repair.damage import Damage
from josefine_broker.engine.security import sasl
from josefine_broker.engine.transactions import states as transaction_states
from josefine_broker.text import session
from josefine_spark.write import state as sink_state
from pipelines.run import sink_lifecycle
from raft import Height, progress, roles

_MEMBER = re.compile(r"^\s+([A-Z_]+) = [^#]*(?:#\s*(.+))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachine:
    """One table, and how the code walks it."""

    title: str
    states: type[Enum]
    events: type[Enum]
    transitions: Mapping[tuple[Any, Any], Any]
    step: Callable[[Any, Any], Any]
    """(state, event) → the next state, by the code that runs. Raises for an unlisted pair."""

    @property
    def file(self) -> str:
        return f"{self.states.__module__.replace('.', '/')}.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A table of what follows from two facts, and how the code decides."""

    title: str
    rows: type[Enum]
    columns: type[Enum]
    outcomes: type[Enum]
    cells: Mapping[tuple[Any, Any], Any]
    decide: Callable[[Any, Any], Any]

    @property
    def file(self) -> str:
        return f"{self.outcomes.__module__.replace('.', '/')}.py"


def _flow_step(state: Any, event: Any) -> Any:
    follower = progress.Progress(Height(1), 0)
    follower.flow = state
    follower.on(event)
    return follower.flow


def _phase_step(state: Any, event: Any) -> Any:
    ours = frames.Hello(node_id=1, to=0, cluster_id="", address="")
    session = frames.Session(ours, dials=False)
    session.phase = state
    session._on(event)
    return session.phase


def _round_step(state: Any, event: Any) -> Any:
    asking = joining.Asking(1, (), AddressBook())
    asking.step = state
    asking._move(event)
    return asking.step


def _place(shown: Any, wish: Any) -> Any:
    """By the facts that an enrolment has these from."""
    one: Any = object.__new__(enrolment.Enrolment)
    is_shown = shown in (enrolment.Shown.FENCED, enrolment.Shown.UNFENCED)
    entry = SimpleNamespace(fenced=shown is enrolment.Shown.FENCED) if is_shown else None
    one._entry = lambda: entry
    one._was_registered = shown is not enrolment.Shown.NOTHING
    one._wants_shutdown = wish is not enrolment.Wish.STAY
    one._may_stop = wish is enrolment.Wish.MAY_STOP
    return one.place


def _copy_step(state: Any, event: Any) -> Any:
    copy = replica_fetch.Copy(("", 0), 0, 0, 0, 0, state=state)  # type: ignore[arg-type]
    copy.on(event)
    return copy.state


def _repair_step(state: Any, event: Any) -> Any:
    found = repair.Repair(Damage(0, 1, 0, "a test"))
    found.state = state
    found.on(event)
    return found.state


def _replica_step(state: Any, event: Any) -> Any:
    replica = partition.Partition(ProducerState(), LeaderEpochs())
    replica.state = state
    replica._on(event)
    return replica.state


def _connection_step(state: Any, event: Any) -> Any:
    conversation = connection.Connection("a test")
    conversation.state = state
    conversation._step(event)
    return conversation.state


def _sasl_step(state: Any, event: Any) -> Any:
    asked = sasl.Sasl(sasl.MECHANISMS)
    asked.state = state
    asked._step(event)
    return asked.state


def _group_step(state: Any, event: Any) -> Any:
    group = Group("a test", count(1), GroupCounts(), state)
    group.on(event)
    return group.state


def _member_step(state: Any, event: Any) -> Any:
    member = Member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=(),
        state=state,
    )
    return member.moved(event).state


def _consumer_group_step(state: Any, event: Any) -> Any:
    return ConsumerGroup(group_id="a test", state=state).moved(event).state


def _consumer_member_step(state: Any, event: Any) -> Any:
    member = ConsumerMember(member_id="m", state=state)
    return member.moved(event, 1, frozenset(), frozenset()).state


MACHINES = (
    StateMachine(
        title="Role of a Raft node",
        states=roles.Role,
        events=roles.RoleEvent,
        transitions=roles.TRANSITIONS,
        step=roles.next_role,
    ),
    StateMachine(
        title="How a Raft leader feeds a follower",
        states=progress.Flow,
        events=progress.FlowEvent,
        transitions=progress.TRANSITIONS,
        step=_flow_step,
    ),
    StateMachine(
        title="A connection between brokers",
        states=frames.Phase,
        events=frames.PhaseEvent,
        transitions=frames.TRANSITIONS,
        step=_phase_step,
    ),
    StateMachine(
        title="A round of questions of a broker that looks for its cluster",
        states=joining.Step,
        events=joining.Turn,
        transitions=joining.ROUND,
        step=_round_step,
    ),
    StateMachine(
        title="Role of a replica",
        states=replica_role.ReplicaState,
        events=replica_role.ReplicaEvent,
        transitions=replica_role.TRANSITIONS,
        step=_replica_step,
    ),
    StateMachine(
        title="A partition in a follower's fetch session",
        states=replica_fetch.CopyState,
        events=replica_fetch.CopyEvent,
        transitions=replica_fetch.TRANSITIONS,
        step=_copy_step,
    ),
    StateMachine(
        title="The repair of a damaged segment",
        states=repair.RepairState,
        events=repair.RepairEvent,
        transitions=repair.TRANSITIONS,
        step=_repair_step,
    ),
    StateMachine(
        title="A consumer group",
        states=states.GroupState,
        events=states.GroupEvent,
        transitions=states.GROUP_TRANSITIONS,
        step=_group_step,
    ),
    StateMachine(
        title="A member of a consumer group",
        states=states.MemberState,
        events=states.MemberEvent,
        transitions=states.MEMBER_TRANSITIONS,
        step=_member_step,
    ),
    StateMachine(
        title="A group of the consumer protocol",
        states=consumer_states.ConsumerGroupState,
        events=consumer_states.ConsumerGroupEvent,
        transitions=consumer_states.GROUP_TRANSITIONS,
        step=_consumer_group_step,
    ),
    StateMachine(
        title="A member of a group of the consumer protocol",
        states=consumer_states.ConsumerMemberState,
        events=consumer_states.ConsumerMemberEvent,
        transitions=consumer_states.MEMBER_TRANSITIONS,
        step=_consumer_member_step,
    ),
    StateMachine(
        title="A record of a share partition",
        states=share_states.RecordState,
        events=share_states.RecordEvent,
        transitions=share_states.RECORD_TRANSITIONS,
        step=share_states.next_record_state,
    ),
    StateMachine(
        title="A share group",
        states=share_states.ShareGroupState,
        events=share_states.ShareGroupEvent,
        transitions=share_states.GROUP_TRANSITIONS,
        step=share_states.next_group_state,
    ),
    StateMachine(
        title="A transaction",
        states=transaction_states.TransactionState,
        events=transaction_states.TransactionEvent,
        transitions=transaction_states.TRANSITIONS,
        step=transaction_states.next_state,
    ),
    StateMachine(
        title="An exactly-once sink",
        states=sink_state.Phase,
        events=sink_state.Event,
        transitions=sink_state.TRANSITIONS,
        step=sink_state.next_phase,
    ),
    StateMachine(
        title="A client's connection",
        states=connection.ConnectionState,
        events=connection.Event,
        transitions=connection.TRANSITIONS,
        step=_connection_step,
    ),
    StateMachine(
        title="Authentication of a client's connection",
        states=sasl.SaslState,
        events=sasl.SaslEvent,
        transitions=sasl.TRANSITIONS,
        step=_sasl_step,
    ),
    StateMachine(
        title="A session of the text protocol",
        states=session.State,
        events=session.Input,
        transitions=session.TRANSITIONS,
        step=session.next_state,
    ),
    StateMachine(
        title="A sink in a pipeline's run",
        states=sink_lifecycle.Life,
        events=sink_lifecycle.Turn,
        transitions=sink_lifecycle.TRANSITIONS,
        step=sink_lifecycle.next_life,
    ),
)


DECISIONS = (
    Decision(
        title="A broker's place in its cluster",
        rows=enrolment.Shown,
        columns=enrolment.Wish,
        outcomes=enrolment.Place,
        cells=enrolment.PLACES,
        decide=_place,
    ),
)


def page() -> str:
    """docs/reference/state-machines.md."""
    lines = [
        "# State machines",
        "",
        "Drawn by `./build.sh docs` from the literal tables in the code. What is not listed cannot",
        "happen: it raises, and `tests/unit/test_state_machines.py` walks every cell.",
    ]
    for machine in MACHINES:
        lines += ["", f"## {machine.title}", "", f"`{machine.file}`", "", *_diagram(machine), ""]
        lines += ["| state | meaning |", "|---|---|", *_meanings(machine.states), ""]
        lines += ["| event | when |", "|---|---|", *_meanings(machine.events)]
    for decision in DECISIONS:
        lines += ["", f"## {decision.title}", "", f"`{decision.file}`", "", *_grid(decision), ""]
        for names in (decision.outcomes, decision.rows, decision.columns):
            lines += [f"| {names.__name__.lower()} | meaning |", "|---|---|", *_meanings(names), ""]
    lines.pop()
    return "\n".join(lines) + "\n"


def _diagram(machine: StateMachine) -> list[str]:
    by_ends: dict[tuple[str, str], list[str]] = {}
    for (state, event), after in machine.transitions.items():
        by_ends.setdefault((state.name, after.name), []).append(_words(event.name))
    first = next(iter(machine.states)).name
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [
        f"    {state} --> {after}: {', '.join(events)}"
        for (state, after), events in by_ends.items()
    ]
    return [*lines, "```"]


def _grid(decision: Decision) -> list[str]:
    columns = [_words(each.name) for each in decision.columns]
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in decision.rows:
        cells = [_words(decision.cells[row, each].name) for each in decision.columns]
        lines.append(f"| {_words(row.name)} | {' | '.join(cells)} |")
    return lines


def _meanings(names: type[Enum]) -> list[str]:
    said = {}
    for line in inspect.getsource(names).splitlines():
        match = _MEMBER.match(line)
        if match:
            said[match[1]] = match[2] or ""
    return [f"| {_words(each.name)} | {said[each.name].replace('|', '/')} |" for each in names]


def _words(name: str) -> str:
    return name.lower().replace("_", " ")
