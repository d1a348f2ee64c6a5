"""`python -m tests.bench [NAME ...]`: one JSON line per measure, progress on stderr. The names are
broker, cleaner, cluster, durability, groups, journal, mirror, pipelines, raft, scale,
shares, spark, spark_cold, spark_cpu, spark_sink, text, tls and transactions.

`broker --against REV` compares this checkout with a commit (against.py); `all` measures every area
with its peer and writes BENCHMARKS.md (all_bench.py).
`broker --stages [KIND ...]` shows where the time of a small request goes (stages.py).

BENCH_ROUNDS (default 3) and BENCH_SCALE (default 1, of the record counts) make it shorter.
"""

import sys
from importlib import import_module

NAMES = {
    "broker": "tests.bench.broker_bench",
    "cleaner": "tests.bench.cleaner_bench",
    "cluster": "tests.bench.cluster_bench",
    "durability": "tests.bench.durability_bench",
    "groups": "tests.bench.groups_bench",
    "journal": "tests.bench.journal_bench",
    "mirror": "tests.bench.mirror_bench",
    "pipelines": "tests.bench.pipelines_bench",
    "raft": "tests.bench.raft_bench",
    "scale": "tests.bench.scale_bench",
    "shares": "tests.bench.shares_bench",
    "spark": "tests.bench.spark_bench",
    "spark_cold": "tests.bench.spark_cold_bench",
    "spark_cpu": "tests.bench.spark_cpu_bench",
    "spark_sink": "tests.bench.spark_sink_bench",
    "text": "tests.bench.text_bench",
    "tls": "tests.bench.tls_bench",
    "transactions": "tests.bench.transactions_bench",
}


def main(names: list[str]) -> None:
    if names[:2] == ["broker", "--stages"]:
        import_module("tests.bench.stages").main(names[2:])
        return
    if names[:1] == ["all"]:
        import_module("tests.bench.all_bench").main(names[1:])
        return
    if names[:1] == ["broker"] and any(name.startswith("-") for name in names):
        import_module("tests.bench.against").main(names[1:])
        return
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise SystemExit(f"bench knows {', '.join(NAMES)}, not {unknown[0]!r}")
    for name in names or NAMES:
        import_module(NAMES[name]).main()


if __name__ == "__main__":
    main(sys.argv[1:])
