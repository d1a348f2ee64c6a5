"""`josefine pipeline check` at a real broker with ACLs: topics, partitions and rights."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.unit.pipelines.test_validate import GOOD


def test_topics_and_rights_are_told_as_the_broker_judges_them(tmp_path: Path) -> None:
    text = GOOD.replace("/ck", f"{tmp_path}/ck").replace("/lake", f"{tmp_path}/lake")
    file = tmp_path / "f.yaml"
    with BrokerProcess(
        tmp_path / "broker", acls__enabled=True, acls__allow_everyone_if_no_acl_found=True
    ) as broker:
        where = broker.bootstrap
        file.write_text(text.replace("localhost:9092", where))

        def told() -> tuple[int, list[str]]:
            done = josefine(where, "pipeline", "check", str(file))
            assert done.err == ""
            return done.code, [line for line in done.out.splitlines() if "source" in line]

        absent = "error: source `raw`: topic orders does not exist; josefine topics create orders"
        assert told() == (79, [f"{absent} -b {where}"])

        # What a line says to type is what helps.
        assert josefine(where, *absent.split("; josefine ")[1].split(), "-p", "3").code == 0
        assert told() == (0, ["ok: source `raw`: orders (3 partitions) can be read"])

        good = file.read_text()
        file.write_text(good.replace("topics: [orders]", "assign: { orders: [0, 2] }"))
        assert told() == (0, ["ok: source `raw`: orders (2 partitions) can be read"])
        file.write_text(good.replace("topics: [orders]", "assign: { orders: [0, 3] }"))
        code, (wrong,) = told()
        assert (code, wrong.split(";")[0]) == (
            79,
            "error: source `raw`: topic orders: no partition orders-3",
        )
        file.write_text(good)

        group = ("--user", "someone", "--operation", "read", "--group", "orders.lake")
        assert josefine(where, "acls", "add", *group).code == 0
        code, (first, warning) = told()
        assert (code, first.split(":")[0]) == (0, "ok")
        assert warning.startswith("warning: source `raw`: lag tools will not see group orders.lake")

        rights = ("--user", "*", "--operation", "describe", "--topic", "orders")
        assert josefine(where, "acls", "add", *rights).code == 0
        code, (first, _) = told()
        assert (code, first.split(";")[0]) == (
            79,
            "error: source `raw`: no right to read topic orders",
        )
