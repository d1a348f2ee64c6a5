"""`josefine pipeline check` at a real broker with ACLs: topics, partitions and rights."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.unit.pipelines.config.test_validate import GOOD


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


def test_where_it_would_begin_and_end_and_what_it_is_joined_with_are_looked_at(
    tmp_path: Path,
) -> None:
    text = GOOD.replace("/ck", f"{tmp_path}/ck").replace("/lake", f"{tmp_path}/lake")
    table = f'{{ type: delta, path: {tmp_path}/customers, schema: "id INT, name STRING" }}'
    joined = 'inputs: [raw, customers], sql: "select value.*, name from raw, customers" }\n'
    file = tmp_path / "f.yaml"
    with BrokerProcess(tmp_path / "broker") as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("orders", 1, 1)])
        tp = TopicPartition("orders", 0)
        client.produce({tp: build_batch([Record(value=b"{}")] * 3)})
        text = text.replace("localhost:9092", broker.bootstrap)
        text = text.replace("topics: [orders]", "topics: [orders]\n    start: { group: g1 }")

        def told(stop: int, join: bool = False) -> tuple[int, list[str]]:
            said = text.replace(
                "    decode:",
                f"    stop: {{ offsets: {{ orders: {{ 0: {stop} }} }} }}\n    decode:",
            )
            if join:
                said = said.replace("transforms:", f"  customers: {table}\ntransforms:")
                said = said.replace("inputs: [raw], sql: select value.* from raw }\n", joined)
            file.write_text(said)
            done = josefine(broker.bootstrap, "pipeline", "check", str(file))
            assert done.err == ""
            return done.code, [line for line in done.out.splitlines() if "source" in line]

        code, (well, start) = told(3)
        assert (code, well.split(":")[0]) == (0, "ok")
        begin = "warning: source `raw`: a sink without a commit cannot start: group g1 has "
        assert start.startswith(f"{begin}committed no offset for orders-0: commit one")
        client.commit_offsets("g1", {tp: 1})
        assert told(3) == (0, ["ok: source `raw`: orders (1 partition) can be read"])
        code, (_, stop) = told(9)
        assert (code, stop) == (
            79, "error: source `raw`: stop.offsets: orders-0 ends at 3 now, before 9",
        )  # fmt: skip

        where = f"source `customers`: {tmp_path}/customers"
        code, (*_, absent) = told(3, join=True)
        assert (code, absent.split(";")[0]) == (79, f"error: {where}: there is no Delta table")
        write_deltalake(f"{tmp_path}/customers", pa.table({"ID": pa.array([1], pa.int32())}))
        code, (*_, other) = told(3, join=True)
        assert (code, other.split(";")[0]) == (79, f"error: {where}: no column `name`")
        rows = pa.table({"ID": pa.array([1], pa.int32()), "name": ["a"]})
        write_deltalake(f"{tmp_path}/customers", rows, mode="overwrite", schema_mode="overwrite")
        code, (*_, good) = told(3, join=True)
        assert (code, good) == (0, f"ok: {where} can be read, at version 1")


def test_a_broker_at_an_address_of_ipv6_is_found_and_a_folder_that_takes_nothing_is_named(
    tmp_path: Path,
) -> None:
    """A folder below a file takes nothing of anybody, root included."""
    (tmp_path / "file").write_text("")
    text = GOOD.replace("/ck", f"{tmp_path}/file/ck").replace("/lake", f"{tmp_path}/lake")
    file = tmp_path / "f.yaml"
    with BrokerProcess(tmp_path / "broker", broker__listeners=["PLAINTEXT://[::1]:0"]) as broker:
        where = broker.bootstrap
        assert where.startswith("[::1]:")
        file.write_text(text.replace("localhost:9092", f"'{where}'"))
        assert josefine(where, "topics", "create", "orders").code == 0

        done = josefine(where, "pipeline", "check", str(file))

    told = done.out.splitlines()
    assert "ok: source `raw`: orders (1 partition) can be read" in told
    (wrong,) = [line for line in told if line.startswith("error: ")]
    assert wrong.startswith(f"error: spark.checkpoint: {tmp_path}/file/ck cannot be written: ")
