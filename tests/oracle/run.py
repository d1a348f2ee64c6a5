"""Run episodes against this broker and Apache Kafka: `python -m tests.oracle.run --help`.

Both are started here, with the same settings. The exit code is 0 when every answer was equal or
explained by a row of known.py, and a run of STANDARD episodes or more used every row.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

from tests.oracle.duel import Duel, Finding
from tests.oracle.episodes import episode, every_pair
from tests.oracle.known import KNOWN
from tests.oracle.settle import make_marker, served
from tests.oracle.side import Side
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import BrokerProcess
from tests.support.maven import NoJarsError

STANDARD = 240
"""Episodes of a whole run: some 6,000 requests."""
SAME = {
    "log__retention_ms": None,
    "broker__auto_create_topics": False,
    "group__initial_rebalance_delay_ms": 0,
}
OURS = {
    "acls__enabled": True,
    "acls__super_users": ["User:ANONYMOUS"],
    "acls__allow_everyone_if_no_acl_found": True,
}
THEIRS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.run", description=__doc__)
    parser.add_argument("episodes", type=int, nargs="?", default=STANDARD, help="how many")
    parser.add_argument("--first", type=int, default=0, help="number of the first (0)")
    parser.add_argument("--trace", action="store_true", help="print every request and answer")
    parser.add_argument(
        "--survey", action="store_true", help="go on after differences and count their kinds"
    )
    parser.add_argument("--findings", type=int, default=20, help="stop after so many (20)")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oracle-")))
        try:
            theirs = ApacheKafka(scratch / "kafka", settings=THEIRS, **SAME)
        except NoJarsError as error:
            print(f"the fuzzer needs Apache Kafka: {error}", file=sys.stderr)
            return 2
        stack.enter_context(theirs)
        ours = stack.enter_context(BrokerProcess(scratch / "here", **SAME, **OURS))
        run = Run(ours.bootstrap, theirs.bootstrap, trace=chosen.trace, survey=chosen.survey)
        for number in range(chosen.first, chosen.first + chosen.episodes):
            run.play(number)
            if len(run.findings) >= chosen.findings and not chosen.survey:
                break
        return run.report(is_whole=chosen.first == 0 and chosen.episodes >= STANDARD)


class Run:
    """Episodes one after the other, and what they found."""

    def __init__(self, ours: str, theirs: str, *, trace: bool, survey: bool) -> None:
        self.bootstraps = {"here": ours, "Apache Kafka": theirs}
        self.trace, self.survey = trace, survey
        self.findings: list[Finding] = []
        self.used: Counter[int] = Counter()
        self.sent: Counter[str] = Counter()
        self.began = monotonic()
        self.served: set[tuple[int, int]] = set(every_pair())
        for side in self._sides():
            make_marker(side)
            self.served &= served(side)
            side.close()

    def _sides(self) -> list[Side]:
        return [Side(name, bootstrap) for name, bootstrap in self.bootstraps.items()]

    def play(self, number: int) -> None:
        """One episode; a finding is printed at once."""
        ours, theirs = self._sides()
        say = print if self.trace else None
        duel = Duel(ours, theirs, number, say=say, is_survey=self.survey)
        findings = duel.play(
            [step for step in episode(number) if (step.key, step.version) in self.served]
        )
        self.sent["requests"] += duel.sent
        self.used.update(KNOWN.index(row) for row in duel.used)
        self.findings += findings
        for finding in () if self.survey else findings:
            print(f"{finding}\n", flush=True)

    def _print_kinds(self) -> None:
        """Each kind of difference once: how often, and where it was met first."""
        kinds: dict[str, list[Finding]] = {}
        for finding in self.findings:
            for each in finding.differences:
                api = finding.step.name.partition(" ")[0]
                text = (
                    f"{api} {each.path}: here {each.ours[:150]}, Apache Kafka {each.theirs[:150]}"
                )
                kinds.setdefault(text, []).append(finding)
        for text, found in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
            first = found[0]
            print(f"{len(found):5} {text}   (episode {first.episode}, {first.step.name})")

    def report(self, *, is_whole: bool) -> int:
        """Print the sums; the exit code."""
        seconds = monotonic() - self.began
        if self.survey:
            self._print_kinds()
        print(
            f"{self.sent['requests']} requests in {seconds:.0f} s; {len(self.findings)} findings; "
            f"{sum(self.used.values())} differences explained by {len(self.used)} of "
            f"{len(KNOWN)} rows"
        )
        unused = [row for at, row in enumerate(KNOWN) if at not in self.used and not row.is_rare]
        if is_whole:
            for row in unused:
                print(f"known.py has a row that nothing used: {row.apis} {row.path}: {row.why}")
        else:
            unused = []
        return 1 if self.findings or unused else 0


if __name__ == "__main__":
    sys.exit(main())
