"""`josefine cluster` with real brokers: what it starts, says, moves and refuses.

The tests share one local cluster and leave it whole; whoever grows or shrinks one has its own.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from josefine_cli.cluster.local import ADMIN_PORT_STEP, RAFT_PORT_STEP, LocalCluster
from tests.support.cli import Done, josefine, josefine_process
from tests.support.ports import free_port_rows
from tests.support.waiting import wait_until

START_TIMEOUT_S = 110.0
BROKERS_MAX = 4


class Local:
    """A local cluster in a directory, driven by the command alone."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, verb: str, *arguments: str) -> Done:
        return josefine("", "cluster", verb, *arguments, "--directory", str(self.directory))

    def json(self, verb: str, *arguments: str) -> Any:
        done = self.run(verb, *arguments, "--json")
        return json.loads(done.out) if done.out else {}

    def start(self, verb: str, *arguments: str) -> str:
        """`up` or `restart`: in a process of its own, which the brokers outlive."""
        process = josefine_process(
            "", "cluster", verb, *arguments, "--directory", str(self.directory)
        )
        out, err = process.communicate(timeout=START_TIMEOUT_S)
        assert process.returncode == 0, err
        return out

    def wait_well(self) -> Done:
        """Until all is well: what status says then."""
        last: list[Done] = []

        def is_well() -> bool:
            last[:] = [self.run("status")]
            return last[0].code == 0

        wait_until(is_well, 60, "a cluster without problems")
        return last[0]

    @property
    def bootstrap(self) -> str:
        state = json.loads((self.directory / "cluster.json").read_text())
        return ",".join(f"127.0.0.1:{each['port']}" for each in state["brokers"])

    def create(self, topic: str, partitions: int) -> None:
        done = josefine(self.bootstrap, "topics", "create", topic, "-p", str(partitions))
        assert done.code == 0, done.err


def first_port() -> int:
    """Of a cluster whose brokers are killed and come back: any free port (`--port 0`) could be
    another connection's by then."""
    return free_port_rows(BROKERS_MAX, RAFT_PORT_STEP, ADMIN_PORT_STEP)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    cluster = Local(Path(tmp_path_factory.mktemp("local")) / "cluster")
    try:
        cluster.start("up", "--brokers", "3", "--port", str(first_port()))
        yield cluster
    finally:
        cluster.run("down")


def test_up_makes_a_cluster_that_status_finds_well(local: Local) -> None:
    """Checklist row 92."""
    done = local.wait_well()

    assert "images equal at height" in done.out
    assert ": yes" in done.out

    def one_image() -> Any:
        """The brokers are asked one after the other: a leadership may go home meanwhile."""
        told = local.json("status")
        digests = {each["digest"] for each in told.get("brokers", ())}
        return told if len(digests) == 1 and not told["problems"] else None

    told = wait_until(one_image, 60, "the same image at all brokers")
    assert [each["place"] for each in told["brokers"]] == ["serving"] * 3
    assert sorted(each["role"] for each in told["brokers"]) == ["controller", "voter", "voter"]


def test_status_fails_and_says_why_while_a_broker_is_gone(local: Local) -> None:
    local.wait_well()
    lost = local.json("status")["controller"]

    assert local.run("kill", str(lost)).code == 0
    done = local.run("status")
    local.start("restart", str(lost))

    assert done.code == 1
    assert f"problem: broker {lost} does not answer" in done.out
    local.wait_well()


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_watch_tells_of_a_broker_that_dies_and_comes_back(local: Local) -> None:
    local.create("watched", 3)
    local.wait_well()
    lost = local.json("status")["controller"]
    watch = ("watch", "--every", "0.2", "--directory", str(local.directory))
    process = josefine_process("", "cluster", *watch)
    assert process.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lines.extend, args=(process.stdout,))
    reader.start()
    told = lambda *words: any(all(w in line for w in words) for line in lines)  # noqa: E731
    try:
        wait_until(lambda: told(f"controller {lost}, term"), 60, "the first line")

        assert local.run("kill", str(lost)).code == 0
        wait_until(lambda: told(f"broker {lost}: serving -> ", "silent"), 60, "its silence")
        wait_until(lambda: told("controller: "), 60, "another controller")
        wait_until(lambda: told("watched-", f"leader {lost} -> "), 60, "another leader")
        local.start("restart", str(lost))
        wait_until(lambda: told(f"broker {lost}: ", " -> serving"), 60, "its return")
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
        reader.join(60)
        local.start("restart", str(lost))
    assert process.stderr is not None
    assert (code, process.stderr.read()) == (0, "")
    local.wait_well()


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_what_each_way_to_write_loses_when_a_leader_is_killed_is_counted(local: Local) -> None:
    """Checklist row 34: who waits for all loses nothing."""
    local.create("written", 3)
    local.wait_well()
    count = ("-n", "2000", "--json")
    process = josefine_process(
        "", "bench", "strategies", "written", "--kill", *count, "-d", str(local.directory)
    )
    out, err = process.communicate(timeout=3 * START_TIMEOUT_S)

    assert process.returncode == 0, err
    found = json.loads(out)
    assert [each["acks"] for each in found] == ["0", "1", "all"]
    assert [each["told"] + each["in_doubt"] for each in found] == [2_000] * 3
    assert (found[2]["lost"], found[2]["twice"]) == (0, 0)
    assert len(re.findall("killed broker", err)) == 3
    local.wait_well()


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_voter_whose_data_are_lost_comes_back_by_the_printed_commands(local: Local) -> None:
    """Checklist row 16. It is refused with an empty directory; then what it prints is done."""
    local.wait_well()
    local.create("kept", 2)
    assert josefine(local.bootstrap, "produce", "kept", stdin="a\nb\nc\n").code == 0
    assert local.run("kill", "3").code == 0
    shutil.rmtree(local.directory / "broker-3" / "data")

    done = local.run("restart", "3")
    assert done.code == 1
    error = done.err.splitlines()[-1]  # on a busy machine it is waited for, and that is told
    assert "broker 3 votes in this cluster, but came with an empty data directory" in error
    printed = re.findall("'josefine ([^']*)'", error)
    assert [each.split()[1] for each in printed] == ["remove", "restart"]
    assert josefine("", *shlex.split(printed[0])).code == 0
    again = josefine_process("", *shlex.split(printed[1]))
    _, err = again.communicate(timeout=START_TIMEOUT_S)

    assert again.returncode == 0, err
    local.wait_well()
    roles = lambda: {each["role"] for each in local.json("brokers")}  # noqa: E731
    wait_until(lambda: roles() == {"controller", "voter"}, 60, "its vote")
    assert "no under-replicated" in local.run("partitions", "--under-replicated").out
    assert sorted(josefine(local.bootstrap, "consume", "kept").out.split()) == ["a", "b", "c"]


def test_partitions_move_and_their_leaders_are_elected(local: Local) -> None:
    local.wait_well()
    local.create("moved", 3)

    done = local.run("reassign", "moved", "--to", "2,3")
    assert done.code == 0, done.err
    assert "moved-0: moves to 2,3\nmoved-1: moves to 3,2\nmoved-2: moves to 2,3\n" in done.out
    nothing = "no partition is being moved"
    wait_until(lambda: nothing in local.run("reassign", "--list").out, 60, "the end of the move")
    assert local.run("elect", "moved").code == 0

    def led() -> list[int]:
        """As the first broker sees it, which learns of an election by itself."""
        return [each["leader"] for each in local.json("partitions", "--topic", "moved")]

    wait_until(lambda: led() == [2, 3, 2], 60, "the preferred leaders")
    found = local.json("partitions", "--topic", "moved")
    assert [each["replicas"] for each in found] == [[2, 3], [3, 2], [2, 3]]
    done = local.run("reassign", "moved", "--cancel")
    assert (done.code, done.out) == (
        1,
        "".join(f"error: partition moved-{n}: nothing to cancel\n" for n in range(3)),
    )


def test_brokers_are_listed_with_their_share(local: Local) -> None:
    local.create("shared", 3)
    local.wait_well()

    brokers = local.json("brokers")

    assert [each["id"] for each in brokers] == [1, 2, 3]
    assert sum(each["leads"] for each in brokers) == len(local.json("partitions"))
    assert min(each["copies"] for each in brokers) >= 3
    held = local.json("partitions", "--broker", "2")
    assert len(held) == brokers[1]["copies"]
    assert all(2 in each["replicas"] for each in held)
    assert "no under-replicated partitions" in local.run("partitions", "--under-replicated").out


def test_a_refused_removal_names_the_topics_that_are_in_the_way(local: Local) -> None:
    local.create("in-the-way", 1)
    local.wait_well()

    done = local.run("remove", "2")

    assert done.code == 1
    assert "broker 2 holds replicas of" in done.err
    assert "in-the-way" in done.err
    assert f"'josefine cluster partitions --broker 2 -d {local.directory}' lists them" in done.err


def test_before_the_cluster_is_formed_status_says_what_a_broker_waits_for(tmp_path: Path) -> None:
    """One of three voters, alone: controller, id and images are still to come. `restart` does not
    wait for what cannot come, and leaves it running: the others may be started one by one."""
    LocalCluster(tmp_path).add(3, first_port(), fast=True, replication=3)
    local = Local(tmp_path)
    restart = josefine_process("", "cluster", "restart", "1", "-d", str(tmp_path))
    try:
        _, err = restart.communicate(timeout=START_TIMEOUT_S)
        done = local.run("status")
        told = local.json("status")
    finally:
        local.run("kill", "1")

    assert done.code == 1
    assert done.out.startswith("problem: broker 1 is in no cluster yet: waiting for ")
    assert (told["images_equal"], told["images_equal_at"]) == (None, None)
    assert restart.returncode == 1
    assert err.endswith(
        "error: broker 1 runs and does not serve yet, waiting for a majority of the voters 1, 2, 3"
        " to elect a leader: brokers 2, 3 are not running,"
        f" 'josefine cluster up -d {tmp_path}' starts all\n"
    )


def test_chain_is_drawn_and_told(local: Local) -> None:
    def drawn() -> list[str]:
        """Once the newest block is applied: a leadership may go home just now."""
        done = local.run("chain", "--last", "3", "--ascii")
        assert done.code == 0
        lines = done.out.splitlines()
        return lines if "(head, commit, applied)" in lines[0] else []

    lines = wait_until(drawn, 60, "a chain whose head is applied")
    assert len(lines) == 4
    assert lines[0].startswith("*  ")
    assert len(local.json("chain", "--last", "3")["blocks"]) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kill", "9"), "there is no broker 9"),
        (("reassign", "t", "--to", "1,x"), "'1,x' is not a list of broker numbers"),
        (("reassign", "t", "--to", "1,1"), "names a broker twice"),
        (("reassign", "t"), "give one of --to"),
        (("reassign", "--to", "1"), "name the TOPIC[:PARTITION]"),
        (("reassign", "nowhere", "--to", "1"), "topic 'nowhere' does not exist"),
        (("elect", "t:x"), "'t:x' is neither TOPIC nor TOPIC:PARTITION"),
        (("elect", "t", "--preferred", "--unclean"), "exclude each other"),
        (("partitions", "--topic", "nowhere"), "topic 'nowhere' does not exist"),
        (("remove", "9"), "no broker 9"),
        (("up", "--brokers", "2"), "'josefine cluster remove N -d "),
        (("partitions", "--broker", "x"), "invalid value for '--broker'"),
    ],
)
def test_misuse_is_one_sentence(local: Local, arguments: tuple[str, ...], said: str) -> None:
    done = local.run(arguments[0], *arguments[1:])

    assert done.code != 0
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_directory_without_a_cluster_is_told(tmp_path: Path) -> None:
    nowhere = Local(tmp_path / "none")
    for verb in ("down", "status", "chain", "brokers"):
        done = nowhere.run(verb)
        assert done.code == 2
        assert f"'josefine cluster up -d {nowhere.directory}' makes one" in done.err


def test_a_broker_that_cannot_start_is_quoted_and_only_it_is_taken_back(tmp_path: Path) -> None:
    """Somebody's files may be in that directory."""
    (tmp_path / "mine").write_text("kept")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = josefine_process(
            "", "cluster", "up", "--brokers", "1", "--port", str(port), "-d", str(tmp_path)
        )
        _, err = process.communicate(timeout=START_TIMEOUT_S)

    assert process.returncode == 1
    assert "broker 1 did not start" in err
    assert str(port) in err
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_directory_that_holds_something_else_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()

    done = Local(tmp_path).run("up", "--port", "0")

    assert done.code == 2
    assert "choose another --directory" in done.err
    assert Local(tmp_path).run("up", "--port", "65500").code == 2


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_one_broker_grows_to_three_voters_and_gives_one_up(tmp_path: Path) -> None:
    """Checklist row 16."""
    local = Local(tmp_path / "cluster")
    port = str(first_port())

    def roles() -> list[str]:
        return sorted(each["role"] for each in local.json("status").get("brokers", ()))

    try:
        local.start("up", "--brokers", "1", "--port", port, "--fast")
        local.create("held", 1)
        assert "(held; 'josefine cluster partitions --broker 1 -d" in local.run("remove", "1").err
        assert josefine(local.bootstrap, "topics", "delete", "held", "--yes").code == 0
        assert "broker 1 is the " in local.run("remove", "1").err
        local.start("up", "--brokers", "3", "--port", port, "--fast")
        wait_until(lambda: roles() == ["controller", "voter", "voter"], 60, "three voters")

        done = local.run("remove", "3")

        assert done.code == 0, done.err
        wait_until(lambda: roles() == ["controller", "voter"], 60, "two brokers left")
        local.wait_well()
        assert len(local.bootstrap.split(",")) == 2
        assert "there is no broker 3" in local.run("kill", "3").err

        local.start("up", "--brokers", "3")
        wait_until(lambda: roles() == ["controller", "voter", "voter"], 60, "three voters again")
        assert [each["id"] for each in local.json("brokers")] == [1, 2, 4]
        assert local.run("remove", "1").code == 0
        wait_until(lambda: len(local.json("brokers")) == 2, 60, "a cluster without broker 1")
        local.run("down")
        assert "broker 4 on" in local.start("up")
        local.wait_well()
    finally:
        local.run("down")
