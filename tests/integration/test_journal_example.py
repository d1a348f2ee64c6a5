"""The account of README.md: it runs as it stands there, and it survives its crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from josefine_broker.client.io_blocking import NewTopic
from tests.support.broker import REPOSITORY, BrokerProcess
from tests.support.fixtures import broker_fixture
from tests.support.processes import ChildProcess

WAIT_S = 120.0


broker = broker_fixture(NewTopic("accounts", partitions=1))


def example(broker: BrokerProcess) -> str:
    section = (REPOSITORY / "README.md").read_text().partition("## Keep a journal")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    assert "127.0.0.1:9092" in code
    return code.replace("127.0.0.1:9092", broker.bootstrap)


def process(code: str) -> ChildProcess:
    return ChildProcess(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def test_account_of_the_readme_runs_as_it_stands_there(broker: BrokerProcess) -> None:
    with process(example(broker)) as running:
        out, _ = running.communicate(timeout=WAIT_S)

    assert (running.returncode, out) == (0, "70\n")


def test_account_is_recovered_after_its_process_and_its_broker_were_killed(
    broker: BrokerProcess,
) -> None:
    """The broker dies while deposits are made and comes back; then their process dies, too."""
    account = example(broker).partition("\nwith BlockingJournals")[0]
    opened = (
        "\nfrom josefine_broker.client.session import Policy\n"
        f'journals = BlockingJournals("{broker.bootstrap}", "accounts",'
        " policy=Policy(request_timeout_ms=120_000))\n"
        'bob = Account(journals, "bob")\n'
    )
    deposits = "while True:\n    bob.move(1)\n    print(bob.last, flush=True)\n"

    with process(account + opened + deposits) as running:
        assert running.stdout is not None
        told = [int(running.stdout.readline()) for _ in range(20)]
        broker.kill()
        broker.start()
        told += [int(line) for line in read_past(running, told[-1] + 20)]
        running.kill()
        told += [int(line) for line in running.stdout if line.endswith("\n")]
    with process(account + opened + "print(bob.balance, bob.last)") as again:
        out, _ = again.communicate(timeout=WAIT_S)

    assert told == list(range(1, told[-1] + 1)), "each deposit was made once"
    balance, last = map(int, out.split())
    assert balance == last
    assert told[-1] <= last <= told[-1] + 1, "of the one under way nobody was told"


def read_past(running: subprocess.Popen[str], wanted: int) -> Iterator[str]:
    """The lines that it says until it has come that far."""
    assert running.stdout is not None
    for line in running.stdout:
        yield line
        if int(line) >= wanted:
            return
