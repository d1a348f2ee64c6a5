"""The state file of a local cluster: numbers, ports, and the sentences that name its directory."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from josefine_cli.base import waiting
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.cluster import local
from josefine_cli.cluster.command import _note_default_copies
from josefine_cli.cluster.local import DEFAULT_DIRECTORY, LocalCluster, command_for
from josefine_cli.cluster.target import admin_urls, bootstrap_of
from josefine_cli.main import run


def laid_out(directory: Path, count: int, port: int | None = None) -> LocalCluster:
    """A cluster none of whose brokers was ever started."""
    cluster = LocalCluster(directory)
    cluster.add(count, port, fast=False, replication=min(3, count))
    return LocalCluster.load(directory)


def grown(cluster: LocalCluster, count: int, port: int | None = None) -> list[int]:
    cluster.add(count, port, fast=False, replication=min(3, count))
    return sorted(LocalCluster.load(cluster.directory).brokers)


def test_a_new_broker_gets_a_number_that_none_ever_had(tmp_path: Path) -> None:
    cluster = laid_out(tmp_path, 3)
    cluster.forget(3)

    assert grown(LocalCluster.load(tmp_path), 3) == [1, 2, 4]
    assert (tmp_path / "broker-3").exists()
    assert LocalCluster.load(tmp_path).broker(4).port == 9095


def test_a_number_is_remembered_before_the_file_is_read_again(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    cluster.add(2, 0, fast=False, replication=1)
    cluster.forget(2)

    assert grown(cluster, 2) == [1, 3]


def test_a_cluster_without_broker_1_grows_from_its_first_port(tmp_path: Path) -> None:
    cluster = laid_out(tmp_path, 4, 7000)
    cluster.forget(1)

    assert grown(LocalCluster.load(tmp_path), 4) == [2, 3, 4, 5]
    found = LocalCluster.load(tmp_path).broker(5)
    assert (found.port, found.raft_port, found.admin_port) == (7004, 7104, 7204)


def test_a_file_without_first_port_and_highest_is_still_read(tmp_path: Path) -> None:
    """Broker 4 was removed before the file remembered numbers: its directory tells."""
    cluster = laid_out(tmp_path, 4, 7000)
    cluster.forget(1)
    cluster.forget(4)
    path = tmp_path / "cluster.json"
    plain = json.loads(path.read_text())
    del plain["first_port"], plain["highest"]
    path.write_text(json.dumps(plain))

    assert grown(LocalCluster.load(tmp_path), 3) == [2, 3, 5]
    assert LocalCluster.load(tmp_path).broker(5).port == 7004


@pytest.mark.parametrize(
    ("chosen", "shell", "expected"),
    [(True, None, "1"), (False, "1", None), (None, "1", "1"), (None, None, None)],
)
def test_the_choice_of_table_writers_is_the_clusters_not_the_shells(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chosen: bool | None,
    shell: str | None,
    expected: str | None,
) -> None:
    monkeypatch.delenv(local.WITH_TABLES, raising=False)
    if shell is not None:
        monkeypatch.setenv(local.WITH_TABLES, shell)
    cluster = laid_out(tmp_path, 1)
    cluster.with_tables = chosen
    cluster.store()

    found = LocalCluster.load(tmp_path)
    assert found._environment().get(local.WITH_TABLES) == expected


def test_a_cluster_on_any_free_ports_grows_on_free_ports(tmp_path: Path) -> None:
    assert grown(laid_out(tmp_path, 1, 0), 3) == [1, 2, 3]
    assert LocalCluster.load(tmp_path).first_port == 0


def test_no_port_of_another_broker_is_taken(tmp_path: Path) -> None:
    cluster = laid_out(tmp_path, 1, 7000)

    with pytest.raises(UsageError, match="port 7100 is used by a broker"):
        cluster.add(2, 7099, fast=False, replication=1)


def test_a_cluster_without_brokers_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    laid_out(tmp_path, 1).forget(1)

    for verb in ("status", "up", "brokers"):
        assert run(["cluster", verb, "-d", str(tmp_path)]) == 2
        assert f"no broker is left of the cluster in {tmp_path}" in capsys.readouterr().err


def test_who_names_no_broker_means_the_local_cluster_in_the_default_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bootstrap_of(None) == "127.0.0.1:9092"

    laid_out(DEFAULT_DIRECTORY, 2, 7000)

    assert bootstrap_of(None) == "127.0.0.1:7000,127.0.0.1:7001"
    assert bootstrap_of("b:1") == "b:1"
    assert admin_urls(None, DEFAULT_DIRECTORY) == ["http://127.0.0.1:7200", "http://127.0.0.1:7201"]


@pytest.mark.parametrize("verb", [("topics", "list"), ("produce", "t"), ("consume", "t")])
def test_topics_produce_and_consume_try_every_broker_of_the_local_cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JOSEFINE_BOOTSTRAP", raising=False)
    laid_out(DEFAULT_DIRECTORY, 2, 1)

    assert run(verb) == 1

    said = capsys.readouterr().err
    assert "127.0.0.1:1 (" in said
    assert "127.0.0.1:2 (" in said
    assert said.count("\n") == 1


def test_hints_carry_the_directory_unless_it_is_the_default() -> None:
    assert command_for("down", DEFAULT_DIRECTORY) == "'josefine cluster down'"
    assert command_for("down", Path("data/two")) == "'josefine cluster down -d data/two'"


def test_no_cluster_there_is_said_with_its_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("down", "status"):
        assert run(["cluster", verb, "-d", str(tmp_path)]) == 2
        assert f"'josefine cluster up -d {tmp_path}' makes one" in capsys.readouterr().err


def test_brokers_that_keep_smaller_defaults_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = laid_out(tmp_path, 1, 7000)
    cluster.add(3, None, fast=False, replication=3)
    _note_default_copies(cluster.default_copies())
    assert capsys.readouterr().err == (
        "broker 1 still makes topics with 1 replica by default:"
        " create them with --replication-factor 3\n"
    )

    cluster.forget(1)
    _note_default_copies(cluster.default_copies())
    assert capsys.readouterr().err == ""


SAYS = "import sys; print('{}', flush=True); {}"
"""In place of a broker: a process that says something, and goes on or ends."""


def starting(monkeypatch: pytest.MonkeyPatch, says: str, then: str) -> None:
    monkeypatch.setattr(local, "COMMAND", SAYS.format(says, then))


def test_a_long_start_says_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own last words are the reason, where it answers nothing yet."""
    starting(monkeypatch, "recovering 7 partitions", "import threading; threading.Event().wait()")
    monkeypatch.setattr(waiting, "FIRST_S", 0.0)
    monkeypatch.setattr(waiting, "AGAIN_S", 0.05)
    monkeypatch.setattr(local, "START_TIMEOUT_S", 1.0)
    cluster = laid_out(tmp_path, 1, 0)

    with pytest.raises(
        UserError, match=r"broker 1 does not serve after 1 s: .*(recovering|nothing)"
    ):
        cluster.start([1])

    assert "s: broker 1 to serve: " in capsys.readouterr().err


def test_words_of_an_earlier_start_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting(monkeypatch, "error: the port is already in use", "sys.exit(1)")
    cluster = laid_out(tmp_path, 1, 0)
    with pytest.raises(UserError, match="broker 1 did not start: the port is already in use"):
        cluster.start([1])
    assert "already in use" in cluster.log_file(1).read_text()

    starting(monkeypatch, "", "sys.exit(1)")
    with pytest.raises(UserError) as caught:
        LocalCluster.load(tmp_path).start([1])

    assert "already in use" not in str(caught.value)


def test_a_process_that_has_said_nothing_yet_is_said_to_be_silent_so_far(tmp_path: Path) -> None:
    """On a busy machine it may take seconds to its first word."""
    cluster = laid_out(tmp_path, 1, 0)

    assert cluster.last_words(1) == "its process has written nothing so far"


def test_its_error_goes_before_what_came_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting(monkeypatch, "error: no room\\nINFO raft stopped", "sys.exit(1)")
    cluster = laid_out(tmp_path, 1, 0)

    with pytest.raises(UserError, match=r"broker 1 did not start: no room$"):
        cluster.start([1])


def test_when_one_of_several_fails_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`up` of a cluster that was there: a majority may serve without the lost one."""
    ends = "sys.argv[-1].endswith('broker-1/broker.yaml') and sys.exit(1)"
    starting(monkeypatch, "x", f"{ends}; import threading; threading.Event().wait()")
    monkeypatch.setattr(local, "START_TIMEOUT_S", 2.0)
    cluster = laid_out(tmp_path, 2, 0)
    try:
        with pytest.raises(UserError, match=r"broker 1 did not start: .*; broker 2 does not serve"):
            cluster.start([1, 2], keep=True)

        assert cluster.running == [2]
    finally:
        for id_ in cluster.running:
            cluster.kill(id_)


def test_without_a_cluster_status_names_the_option_for_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as closed:  # bound and not listening: it refuses
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setattr("josefine_cli.cluster.target.DEFAULT_ADMIN", nowhere)
        monkeypatch.setattr("josefine_cli.cluster.view.DEFAULT_ADMIN", nowhere)
        assert run(["cluster", "status"]) == 1

    said = capsys.readouterr().err
    assert said == (
        f"error: no broker answers at {nowhere}: connection refused;"
        " --admin URL asks a broker elsewhere\n"
    )


REFUSED = (
    "broker 1 did not start: broker 1 votes in this cluster, but came with an empty data directory:"
    " start it with its own data; if they are lost, start broker 2, 3 first; then"
    " 'josefine cluster remove 1 --data-lost -b 127.0.0.1:9093', and start it again"
)


@pytest.mark.parametrize(
    ("others_serve", "first"), [(True, ""), (False, "start broker 2, 3 first; then ")]
)
def test_way_back_is_told_with_the_commands_for_this_cluster(
    tmp_path: Path, others_serve: bool, first: str
) -> None:
    """Where the others came to serve meanwhile, they need no start."""
    told = laid_out(tmp_path, 3, 0)._way_back(1, REFUSED, others_serve)

    assert told.endswith(
        f"if they are lost, {first}'josefine cluster remove 1 --data-lost -d {tmp_path}'"
        f" and 'josefine cluster restart 1 -d {tmp_path}'"
    )


def test_way_back_is_told_once_however_many_brokers_refused_it(tmp_path: Path) -> None:
    """As on a busy machine: the time to start was over while it told whom it had asked."""
    again = REFUSED.partition("start: ")[2].replace("9093", "9094")

    told = laid_out(tmp_path, 3, 0)._way_back(1, f"{REFUSED}; {again} (see 1.log)", False)

    assert told.count("josefine cluster remove") == told.count("josefine cluster restart") == 1
    assert told.endswith(f"'josefine cluster restart 1 -d {tmp_path}'")


@pytest.mark.parametrize("verb", ["kill", "stop"])
def test_a_process_that_is_not_the_brokers_any_more_is_not_signalled(
    tmp_path: Path, verb: str
) -> None:
    """The machine has given the number to somebody else's process since."""
    cluster = laid_out(tmp_path, 1)
    echo = [sys.executable, "-c", "print(input())"]
    stranger = subprocess.Popen(echo, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        cluster.brokers[1] = replace(cluster.brokers[1], pid=stranger.pid)

        if verb == "kill":
            cluster.kill(1)
        else:
            assert cluster.stop([1]) == []

        assert cluster.running == []
        assert stranger.communicate("well\n", timeout=30)[0] == "well\n"
    finally:
        stranger.kill()
        stranger.wait()
