"""The front door: verbs, exit codes, and one sentence for every error."""

from __future__ import annotations

import errno
import importlib
import subprocess
import sys
from typing import Any

import pytest
import typer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.session import Policy
from josefine_cli.base import errors
from josefine_cli.kafka.produce import JSON_FIELDS
from josefine_cli.main import run
from josefine_cli.verbs import VERBS


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_names_every_verb_without_loading_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"loaded {name}"))

    code, out, err = outcome(capsys, "--help")

    assert (code, err) == (0, "")
    assert all(f"  {verb} " in out for verb in VERBS)


def test_no_verb_prints_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys)

    assert code == errors.EXIT_USAGE
    assert "Commands:" in out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "--version")

    assert code == 0
    assert out.startswith("josefine ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("topcs",), "no command 'topcs': did you mean 'topics'?"),
        (("zzz",), "no command 'zzz': there are broker, "),
        (("--nope",), "no such option: --nope (see 'josefine --help')"),
        (("topics", "creat", "x"), "no such command 'creat'"),
        (("topics", "create"), "missing argument 'name' (see 'josefine topics create --help')"),
        (("topics", "create", "t", "-p", "0"), "invalid value for '--partitions'"),
        (
            ("pipeline", "run", "f.yaml", "--trust", "tabel"),
            "invalid value for '--trust': 'tabel' is not one of 'table', 'checkpoint' "
            "(see 'josefine pipeline run --help')",
        ),
        (("topics", "create", "t", "-c", "x"), "--config 'x' is not KEY=VALUE"),
        (("topics", "delete", "t"), "deleting without a terminal to ask on needs --yes"),
        (("topics", "list", "-b", "nowhere"), "'nowhere' is not a broker address"),
        (
            ("topics", "list", "-b", "http://h:9092"),
            "'http://h:9092' has a scheme: drop 'http://', use 'h:9092'",
        ),
        (("topics", "list", "-b", "h:99999"), "port 99999 of 'h:99999' is out of range"),
        (("broker", "--data-dir", __file__), f"--data-dir {__file__} is a file, not a directory"),
        (("produce", "t", "-f", "json", "-k", ":"), "--key-separator is only for --format lines"),
        (("produce", "t", "-H", "x"), "--header 'x' is not NAME=VALUE"),
        (("consume", "t", "--from", "soon"), "--from 'soon' is not valid"),
        (("consume", "t", "-F", "--to", "5"), "--follow has no end"),
        (("consume", "t", "-p", "x"), "--partitions 'x' is not like 0,2,5-7"),
        (("consume", "t", "-p", "3-1"), "--partitions '3-1': 3 is after 1"),
        (
            ("consume", "t", "--from", "latest", "--to", "earliest"),
            "--from latest is after --to earliest",
        ),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = outcome(capsys, *arguments)

    assert (code, out) == (errors.EXIT_USAGE, "")
    assert err.startswith(f"error: {sentence}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("verb", [("topics", "list"), ("produce", "t"), ("consume", "t")])
def test_an_unreachable_broker_is_one_sentence_with_its_address(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verb: tuple[str, ...],
) -> None:
    monkeypatch.setattr("josefine_cli.base.output.PATIENCE", Policy(bootstrap_timeout_ms=50))
    monkeypatch.setenv("JOSEFINE_BOOTSTRAP", "127.0.0.1:1")

    code, out, err = outcome(capsys, *verb)

    assert (code, out) == (errors.EXIT_FAILURE, "")
    assert err.startswith("error: cannot reach a broker at 127.0.0.1:1 (connection refused)")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        (KafkaError(ErrorCode.message_too_large, "too large"), "too large", 1),
        (KafkaError(ErrorCode.message_too_large), "message too large", 1),
        (KafkaError(ErrorCode.invalid_partitions, "topic 'a': topic 'a' has 2"),
         "topic 'a' has 2", 1),
        (OSError(errno.ENOENT, "No such file or directory", "x.txt"),
         "x.txt: no such file or directory", 1),
        (ModuleNotFoundError("No module named 'pyspark'", name="pyspark"),
         "'pyspark' is not installed: pip install 'pyspark>=4.1,<4.3' 'delta-spark>=4.0,<4.5' "
         "'pyarrow>=18' 'pandas>=2.2,<3' 'numba>=0.60' 'numpy>=1.26'", 1),
        (ModuleNotFoundError("No module named 'josefine_pipelines'", name="josefine_pipelines.run"),
         "'josefine_pipelines' is not installed: "
         "pip install --find-links FOLDER_OF_WHEELS josefine-pipelines", 1),
        (errors.UsageError("wrong"), "wrong", 2),
        (ZeroDivisionError("division by zero"),
         "unexpected ZeroDivisionError: division by zero (JOSEFINE_DEBUG=1 shows where)", 1),
    ],
)  # fmt: skip
def test_every_exception_becomes_a_sentence_and_a_code(
    error: Exception, sentence: str, code: int
) -> None:
    assert errors.explain(error) == (sentence, code)


def test_a_stack_trace_is_shown_only_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors.report(ZeroDivisionError("x"))
    assert "Traceback" not in capsys.readouterr().err

    monkeypatch.setenv("JOSEFINE_DEBUG", "1")
    errors.report(ZeroDivisionError("x"))

    assert "ZeroDivisionError" in capsys.readouterr().err


def interrupted_definition() -> RuntimeError:
    """What Ctrl-C inside the definition of a class becomes."""

    class Attribute:
        def __set_name__(self, *_: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(RuntimeError) as raised:
        type("Defined", (), {"attribute": Attribute()})
    return raised.value


def test_interrupts_and_broken_pipes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.report(KeyboardInterrupt()) == 130
    assert errors.report(interrupted_definition()) == 130
    assert errors.report(BrokenPipeError()) == 141
    assert capsys.readouterr().err == ""


def test_a_group_without_a_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = outcome(capsys, "topics")

    assert code == errors.EXIT_USAGE
    assert "Commands:" in out
    assert err == ""


def test_a_question_answered_with_no_does_nothing_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert errors.report(typer.Abort()) == errors.EXIT_FAILURE
    assert capsys.readouterr().err == "nothing done\n"


def test_an_unknown_section_in_the_environment_names_its_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOSEFINE__LOGG__SEGMENT_BYTES", "5")

    code, out, err = outcome(capsys, "broker")

    assert (code, out) == (errors.EXIT_FAILURE, "")
    assert err.startswith("error: environment JOSEFINE__LOGG__SEGMENT_BYTES: unknown key logg")


def test_help_is_plain_for_every_verb_of_the_broker(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("broker", "topics", "produce", "consume", "log"):
        code, out, _ = outcome(capsys, verb, "--help")

        assert code == 0
        assert "─" not in out, verb


def test_produce_help_lists_the_fields_of_a_json_record(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = outcome(capsys, "produce", "--help")

    assert all(name in out for name in JSON_FIELDS)


def test_the_front_door_loads_nothing_but_itself() -> None:
    """What a Ctrl-C may meet before the handler is the interpreter's own start."""
    code = (
        "import sys; before = set(sys.modules); import josefine_cli.main;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["__future__", "josefine_cli", "josefine_cli.main"]


def test_ctrl_c_while_a_verb_is_loaded_is_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who else imports meanwhile, another thread or a finalizer, is not interrupted by the test."""
    load = importlib.import_module

    def interrupted(what: Any, *rest: Any) -> Any:
        if isinstance(what, str) and not what.startswith("josefine_cli."):
            return load(what, *rest)
        raise KeyboardInterrupt

    for where in ("importlib.import_module", "typer.main.get_command"):
        with monkeypatch.context() as patched:
            patched.setattr(where, interrupted)
            code, _, err = outcome(capsys, "topics", "list")
            assert (code, err) == (130, "")


def test_an_option_that_wants_a_number_asks_for_a_whole_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = outcome(capsys, "topics", "create", "t", "--partitions", "abc")

    assert code == errors.EXIT_USAGE
    assert err.startswith(
        "error: invalid value for '--partitions' / '-p': 'abc' is not a whole number"
    )
