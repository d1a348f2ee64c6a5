"""`josefine pipeline init | lint | show | graph | schema`: exit codes, output, what they load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from josefine_cli.main import run
from josefine_cli.pipeline import run as pipeline_run
from josefine_cli.pipeline import secrets
from pipelines.base.errors import ConfigError, RunError
from pipelines.base.variables import Variables
from pipelines.config.json_schema import json_schema
from pipelines.config.validate import examine
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.report.totals import RunResult
from tests.unit.pipelines.base.test_secrets import SECRET, WITH_SECRET

BAD = "version: 1\nname: x\nsurces: {}\n"


def test_lint_of_a_good_file_says_so_and_returns_0(capsys):
    assert run(["pipeline", "lint", "conf/pipelines/flights.yaml"]) == 0

    out = capsys.readouterr().out
    assert out == "conf/pipelines/flights.yaml: good (1 source, 1 transform, 2 sinks)\n"


def test_lint_of_a_bad_file_lists_every_problem_and_returns_78(tmp_path, capsys):
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)

    assert run(["pipeline", "lint", str(file)]) == 78

    said = capsys.readouterr()
    assert said.out == ""
    assert f"{file}:3:1: surces: unknown key `surces`; did you mean `sources`?" in said.err
    assert f"{file}:1:1: `sinks` is missing" in said.err
    assert "Traceback" not in said.err


def test_every_line_of_complaints_has_the_same_shape(tmp_path, capsys):
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)

    run(["pipeline", "lint", str(file)])

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if not re.match(rf"{file}:\d+:\d+: ", line)] == []


def test_lint_for_scripts_puts_problems_on_stdout_as_one_line_of_json(tmp_path, capsys):
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)

    assert run(["pipeline", "lint", str(file), "--json"]) == 78

    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is False
    assert {(p["line"], p["column"], p["path"]) for p in result["problems"]} >= {(3, 1, "surces")}


@pytest.mark.parametrize(
    "arguments",
    [
        ["pipeline", "run"],
        ["pipeline", "run", "f.yaml", "--trust", "both"],
        ["pipeline", "run", "f.yaml", "--trust", "neither"],
    ],
)
def test_a_wrong_command_line_returns_2(arguments):
    assert run(arguments) == 2


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--rename", "lake"], "--rename lake: expected OLD=NEW"),
        (["--rename", "a=delay"], "the file has no `delay`; did you mean `delays`?"),
        (
            ["--new-chain", "sea"],
            "--new-chain sea: the file has no `sea`; expected one of: flights",
        ),
    ],
)
def test_a_name_that_the_file_does_not_have_returns_2(option, said, capsys):
    assert run(["pipeline", "run", "conf/pipelines/flights.yaml", *option]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_file_returns_78(capsys):
    assert run(["pipeline", "run", "none.yaml"]) == 78
    assert "none.yaml:1:1: cannot be read: No such file or directory" in capsys.readouterr().err


def test_the_help_offers_two_sides_to_trust_and_no_completion(capsys):
    assert run(["pipeline", "run", "--help"]) == 0
    assert "--trust <table|checkpoint>" in capsys.readouterr().out
    assert run(["pipeline", "--help"]) == 0
    assert "completion" not in capsys.readouterr().out


def test_the_sides_to_trust_are_those_that_a_run_knows():
    assert {side.value for side in pipeline_run.Side} == {each.value for each in Trust} - {
        "neither"
    }


def test_a_run_of_what_is_there_now_ends_whatever_the_file_says(tmp_path, monkeypatch, capsys):
    """Streaming by day, catching up by cron: the same file, and the same checkpoint."""
    file = tmp_path / "ticks.yaml"
    text = Path("conf/pipelines/ticks.yaml").read_text()
    file.write_text(re.sub("(?m)^trigger:.*", "trigger: { every: 5s }", text))
    ran = []

    def ended(pipeline, said):
        ran.append(pipeline)
        return RunResult(sinks={}, seconds=0.0, interrupted=False)

    monkeypatch.setattr(pipeline_run, "_run", ended)
    monkeypatch.setenv("LAKE", str(tmp_path))
    assert run(["pipeline", "run", str(file)]) == 0
    assert run(["pipeline", "run", "--available-now", str(file)]) == 0

    assert [pipeline.every_ms for pipeline in ran] == [5000, None]
    assert ran[0].checkpoint == ran[1].checkpoint


def test_init_writes_an_example_that_lints_clean_and_writes_over_nothing(tmp_path, capsys):
    file = tmp_path / "orders.yaml"

    assert run(["pipeline", "init", str(file)]) == 0
    assert run(["pipeline", "lint", str(file)]) == 0
    assert capsys.readouterr().out.endswith("good (1 source, 1 transform, 2 sinks)\n")

    file.write_text("mine")
    assert run(["pipeline", "init", str(file)]) == 2
    assert "is there already: --force writes over it" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert run(["pipeline", "init", "--force", str(file)]) == 0
    assert file.read_text() != "mine"


def test_show_prints_the_file_of_an_environment(tmp_path, capsys):
    file = tmp_path / "orders.yaml"
    run(["pipeline", "init", str(file)])
    capsys.readouterr()

    assert run(["pipeline", "show", "--resolved", "--env", "prod", str(file)]) == 0

    said = capsys.readouterr().out
    assert "path: s3a://lake/orders" in said
    assert "every: 5s" in said


def test_an_environment_that_is_not_there_returns_2(tmp_path, capsys):
    file = tmp_path / "orders.yaml"
    run(["pipeline", "init", str(file)])

    for verb in ("lint", "show", "graph", "plan", "run"):
        assert run(["pipeline", verb, "--env", "prd", str(file)]) == 2
        assert "no environment `prd`; did you mean `prod`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "begins"),
    [([], "flowchart LR"), (["--mermaid"], "flowchart LR"), (["--dot"], "digraph"),
     (["--svg"], "<svg")],
)  # fmt: skip
def test_graph_prints_the_drawing_that_is_asked_for(option, begins, capsys):
    assert run(["pipeline", "graph", *option, "conf/pipelines/flights.yaml"]) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_two_drawings_at_once_are_wrong_usage(capsys):
    assert run(["pipeline", "graph", "--dot", "--svg", "conf/pipelines/flights.yaml"]) == 2


def test_schema_prints_what_the_file_beside_the_examples_has(capsys):
    assert run(["pipeline", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def pipeline_with_secret():
    return examine(WITH_SECRET, "f.yaml", Variables(env={"KEY": SECRET})).pipeline


@pytest.mark.parametrize(
    ("error", "kind"),
    [(RunError(f"x {SECRET} y"), RunError), (ValueError(f"x {SECRET} y"), Exception)],
)
def test_an_error_of_a_run_shows_no_secret(error, kind):
    with pytest.raises(kind) as raised, secrets.hiding(pipeline_with_secret()):
        raise error

    assert "x *** y" in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_complaints_of_spark_show_no_secret_and_an_exit_stays_one():
    problems = examine("version: 2", "f.yaml", Variables(env={})).problems
    problem = next(each for each in problems if "expected 1" in each.message)

    with pytest.raises(ConfigError) as raised, secrets.hiding(pipeline_with_secret()):
        raise ConfigError([type(problem)(place=problem.place, path="", message=f"a {SECRET}")])
    assert str(raised.value) == "f.yaml:1:10: a ***"
    with pytest.raises(typer.Exit), secrets.hiding(pipeline_with_secret()):
        raise typer.Exit(78)


def test_what_is_printed_has_no_secret():
    value = {"a": [SECRET, {"b": f"s3a://{SECRET}@x"}], "n": 1}

    assert secrets._hidden(value, frozenset({SECRET})) == {
        "a": ["***", {"b": "s3a://***@x"}],
        "n": 1,
    }


@pytest.mark.parametrize("verb", ["lint", "show", "graph"])
def test_a_verb_for_files_loads_neither_spark_nor_the_connector_nor_the_broker_s_client(verb):
    code = (
        "import sys; from josefine_cli.main import run;"
        f"assert run(['pipeline', '{verb}', 'conf/pipelines/flights.yaml']) == 0;"
        "heavy = {'pyspark', 'josefine_spark', 'pyarrow', 'numpy', 'pandas', 'numba', 'deltalake',"
        "    'josefine_broker.client.cluster', 'josefine_broker.wire'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr == "[]\n"
