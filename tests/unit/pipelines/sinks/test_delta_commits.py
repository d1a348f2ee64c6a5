"""The state is computed for the newest version only, and the session is as before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.sinks.delta_commits import compute_state

errors = pytest.importorskip("pyspark.errors")
WHOLE, MODE = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"


class Session:
    """A session with settings, and Delta's cached snapshot of a version."""

    def __init__(self, version, error=None, **settings):
        self.settings, self.computed, self.error = settings, [], error
        self.conf = SimpleNamespace(
            get=self.settings.get, set=self.settings.__setitem__, unset=self.settings.pop
        )
        snapshot = SimpleNamespace(version=lambda: version, transactions=self._compute)
        log = SimpleNamespace(unsafeVolatileSnapshot=lambda: snapshot)
        of = SimpleNamespace(forTable=lambda session, path: log)
        delta = SimpleNamespace(DeltaLog=of)
        sql = SimpleNamespace(delta=delta)
        spark = SimpleNamespace(sql=sql)
        apache = SimpleNamespace(spark=spark)
        self._jvm = SimpleNamespace(org=SimpleNamespace(apache=apache))
        self._jsparkSession = None

    def _compute(self):
        if self.error:
            raise self.error
        self.computed.append(dict(self.settings))


def test_the_newest_version_is_computed_without_generated_code():
    session = Session(7, **{MODE: "FALLBACK"})

    compute_state(session, "/t", 7)

    assert session.computed == [{WHOLE: "false", MODE: "NO_CODEGEN"}]
    assert session.settings == {MODE: "FALLBACK"}


def test_a_snapshot_that_the_commit_will_not_use_is_left_alone():
    session = Session(6)

    compute_state(session, "/t", 7)

    assert session.computed == []


@pytest.mark.parametrize("error", [errors.AnalysisException("gone"), TypeError("no such class")])
def test_a_failure_is_left_to_the_commit_and_the_settings_are_restored(error):
    session = Session(7, error, **{MODE: "FALLBACK"})

    compute_state(session, "/t", 7)

    assert session.settings == {MODE: "FALLBACK"}
