"""What the lab of pipelines reads from a run's tables."""

from pathlib import Path

from tests.bench.pipelines_lab import commit_times, commits


def test_commits_are_all_versions_of_the_table_and_those_with_rows_have_a_time(
    tmp_path: Path,
) -> None:
    log = tmp_path / "tables" / "flights_0" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{1:020}.json").write_text('{"add":{"path":"a"}}')
    (log / f"{0:020}.json").write_text('{"metaData":{}}')
    (log / f"{1:020}.crc").write_text("{}")

    assert [int(file.stem) for file in commits(tmp_path, "flights_0")] == [0, 1]
    assert len(commit_times(tmp_path, "flights_0")) == 1


def test_sink_without_a_table_has_no_commits(tmp_path: Path) -> None:
    assert commits(tmp_path, "flights_0") == []
