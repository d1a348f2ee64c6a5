"""Every area of the report, in the order of the page."""

from tests.bench.areas import (
    acks,
    big_logs,
    catch_up,
    connections,
    failover,
    latency,
    load,
    older,
    partitions,
    pipelines,
    records,
    recovery,
    requests,
    spark,
    transactions,
)
from tests.bench.areas.area import Area

AREAS: dict[str, Area] = {
    area.name: area
    for area in (
        records.AREA,
        acks.AREA,
        requests.AREA,
        load.AREA,
        latency.AREA,
        transactions.AREA,
        older.DURABILITY,
        older.GROUPS,
        older.TLS,
        connections.AREA,
        partitions.AREA,
        recovery.AREA,
        big_logs.AREA,
        failover.AREA,
        catch_up.AREA,
        spark.AREA,
        pipelines.AREA,
        pipelines.SINKS_AREA,
    )
}
