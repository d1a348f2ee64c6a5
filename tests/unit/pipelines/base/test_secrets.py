"""Secrets by reference: read when a run needs them, never printed."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ConfigError
from pipelines.base.variables import HIDDEN, Variables, hidden
from pipelines.config.validate import examine, read_pipeline
from pipelines.lint.lint import lint_file
from tests.unit.pipelines.config.test_validate import GOOD

SECRET = "hunter2-of-the-lake"
WITH_SECRET = GOOD.replace(
    "{ checkpoint: /ck }",
    '{ checkpoint: /ck, conf: { spark.hadoop.fs.s3a.secret.key: "${secret:env:KEY}" } }',
)


def test_a_secret_is_read_from_the_environment_and_not_in_the_pipelines_words():
    pipeline = examine(WITH_SECRET, "f.yaml", Variables(env={"KEY": SECRET})).pipeline

    assert pipeline.conf == {"spark.hadoop.fs.s3a.secret.key": SECRET}
    assert pipeline.secrets == {SECRET}
    assert SECRET not in repr(pipeline)


@pytest.mark.parametrize(
    ("reference", "text", "value"),
    [
        ("{file}", f"{SECRET}\n", SECRET),
        ("{file}#b", f"a=1\n b = {SECRET} \nc=2", SECRET),
    ],
)
def test_a_secret_is_read_from_a_file_or_a_line_of_it(tmp_path, reference, text, value):
    file = tmp_path / "secrets"
    file.write_text(text)
    variables = Variables(env={})

    replaced = variables.replaced("${secret:file:" + reference.format(file=file) + "}")

    assert (replaced.text, replaced.is_secret) == (value, True)


def test_what_else_stands_in_a_file_of_secrets_is_not_told(tmp_path):
    file = tmp_path / "secrets"
    file.write_text(f"a={SECRET}\n")

    (gap,) = Variables(env={}).replaced("${secret:file:" + f"{file}#b" + "}").gaps

    assert gap.message == "${secret:file:" + f"{file}#b" + "}: no line `b=...` in the file"


def test_no_complaint_shows_a_secret():
    text = GOOD.replace("name: orders", "name: orders\nvars: { host: '${secret:env:KEY}' }")
    text = text.replace("localhost:9092", "${host}").replace("path: /lake", "path: '/x/${host}'")
    text = text.replace("{ checkpoint: /ck }", "{ checkpoint: '/x/${host}/ck' }")
    text = text.replace("mode: append", "mode: '${host}'").replace("id INT", "id ${host}")

    problems = examine(text, "f.yaml", Variables(env={"KEY": SECRET})).problems

    assert len(problems) >= 4
    assert not [each for each in problems if SECRET in str(each)]
    assert any("found a secret" in each.message for each in problems)


def test_lint_reads_no_secret(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(WITH_SECRET)

    assert lint_file(file, {}).problems == []
    with pytest.raises(ConfigError, match="`KEY` is not in the environment"):
        read_pipeline(file, {})


def test_every_occurrence_is_hidden_the_longest_first():
    assert hidden("abc ab x", frozenset({"ab", "abc"})) == f"{HIDDEN} {HIDDEN} x"
