"""How a file says that its brokers want TLS and a password, and that no verb tells the password."""

from __future__ import annotations

import os

import pytest

from josefine_broker.base.security import SecurityProtocol
from pipelines.base.errors import SetupError
from pipelines.base.variables import Variables
from pipelines.config.security import settings_of
from pipelines.config.validate import examine
from pipelines.inspect.preflight_probe import inquire
from pipelines.lint.lint import lint_file
from pipelines.model.pipeline import Pipeline
from pipelines.model.security import connection_of
from pipelines.sources.josefine import options_of
from tests.unit.pipelines.config.sections import said, section
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_topic import TOPIC
from tests.unit.pipelines.config.test_validate import GOOD

SECRET = "hunter2-of-the-lake"
WORDS = (
    "protocol: SASL_SSL, ca: /etc/ca.pem, mechanism: SCRAM-SHA-512, username: alice, "
    'password: "${secret:env:KEY}"'
)
SETTINGS = {
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "/etc/ca.pem",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": SECRET,
}
AT = "topics: [orders]"


def secured(words: str = WORDS, text: str = GOOD) -> str:
    return text.replace(AT, f"{AT}\n    security: {{ {words} }}", 1)


def read(text: str) -> Pipeline:
    examined = examine(text, "f.yaml", Variables(env={"KEY": SECRET}))
    assert examined.problems == []
    return examined.pipeline


def test_the_words_are_a_clients_settings_and_the_connectors_options():
    pipeline = read(secured())

    source = pipeline.sources["raw"]
    assert source.security == SETTINGS
    assert {f"kafka.{n}": v for n, v in SETTINGS.items()}.items() <= options_of(source).items()
    assert SECRET not in repr(pipeline)
    connection = connection_of("here", source.bootstrap, source.security, 1_000)
    assert connection.security.protocol is SecurityProtocol.SASL_SSL
    assert connection.security.password == SECRET
    assert SECRET not in repr(connection)
    assert complaints(secured()) == []


def test_a_topic_sink_comes_in_as_its_source_does_unless_it_says_how_or_where():
    assert read(secured(text=TOPIC)).sinks["out"].topic.security == SETTINGS
    own = TOPIC.replace("topic: big,", "topic: big, security: { protocol: SSL },")
    assert read(secured(text=own)).sinks["out"].topic.security == {"security.protocol": "SSL"}
    assert complaints(own) == []
    elsewhere = TOPIC.replace("topic: big,", "topic: big, bootstrap: 'b:1',")
    assert read(secured(text=elsewhere)).sinks["out"].topic.security == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ca: /x", "`protocol` is missing; expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ("protocol: TLS", "security.protocol: expected PLAINTEXT, SSL, SASL_PLAINTEXT or"),
        ("protocol: SSL, username: a", "security.username: has no effect with protocol=SSL"),
        ("protocol: PLAINTEXT, ca: /x", "security.ca: has no effect with protocol=PLAINTEXT"),
        ("protocol: SSL, key: /x", "security.key: needs certificate"),
        ("protocol: SASL_SSL", "`mechanism` is missing; expected PLAIN, SCRAM-SHA-256"),
        (WORDS.partition(", username")[0], "`username` is missing; expected a user"),
        (WORDS.partition(", password")[0], "`password` is missing; expected the user's"),
        (WORDS.replace("ca:", "cert:"), "security.cert: unknown key `cert`"),
        ("protocol: SASL_SSL, mechanism: OAUTHBEARER, token: abc", "security.token: "),
    ],
)
def test_what_a_client_would_refuse_is_told_with_its_place(words, said):
    problems = examine(secured(words), "f.yaml", Variables(env={"KEY": SECRET})).problems

    assert len(problems) == 1
    assert said in str(problems[0])
    assert str(problems[0]).startswith("f.yaml:9:")


@pytest.mark.parametrize("said", [SECRET, "${KEY}", "x${NOTHING:-y}"])
def test_a_password_does_not_stand_in_the_file(said):
    text = secured(WORDS.replace("${secret:env:KEY}", said))

    (problem,) = examine(text, "f.yaml", Variables(env={"KEY": SECRET})).problems

    assert "a password must not be in this file: expected ${secret:env:NAME}" in str(problem)
    assert SECRET not in str(problem)


def test_lint_needs_no_secret_and_no_variable_of_another_environment(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(secured())
    assert lint_file(file, {}).problems == []
    file.write_text(
        secured("protocol: '${P}', ca: '${CA}'") + "environments: { prod: { vars: { P: SSL } } }\n"
    )

    said = [str(each) for each in lint_file(file, {}).problems]

    assert not [each for each in said if "effect" in each]


def test_a_password_elsewhere_is_read_when_brokers_are_dialled(tmp_path, monkeypatch):
    """Spark's driver reads it too, so its options have the place only."""
    file = tmp_path / "password"
    pipeline = read(secured(WORDS.replace("${secret:env:KEY}", f"file:{file}")))
    source = pipeline.sources["raw"]

    assert options_of(source)["kafka.sasl.password"] == f"file:{file}"
    with pytest.raises(SetupError, match=r"^here: security: password: "):
        connection_of("here", source.bootstrap, source.security, 1_000)
    (unreachable,) = (each.unreachable for each in inquire(pipeline, {}).sources.values())
    assert unreachable.startswith("localhost:9092: security: password: ")
    file.write_text(f"{SECRET}\n")
    found = connection_of("here", source.bootstrap, source.security, 1_000)
    assert found.security.password == SECRET


def settings(words: str) -> tuple[dict[str, str], list[str]]:
    reader = section(f"security: {{ {words} }}" if words else "type: josefine", "source")
    return settings_of(reader), said(reader)


def test_without_a_section_the_brokers_are_reached_in_plaintext():
    assert settings("") == ({}, [])


def test_files_are_of_the_folder_of_the_command_and_passwords_are_named():
    found, problems = settings(
        "protocol: SASL_SSL, ca: ca.pem, verify_host: false, mechanism: PLAIN, username: a, "
        "password: 'env:P'"
    )

    assert problems == []
    assert found["ssl.ca.location"] == os.path.join(os.getcwd(), "ca.pem")
    assert found["ssl.endpoint.identification.algorithm"] == "none"
    assert found["sasl.password"] == "env:P"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("protocol: SASL_SSL", "security"),
        ("protocol: SASL_SSL, mechanism: PLAIN, username: a", "security"),
        ("protocol: PLAINTEXT, ca: /c", "security.ca"),
        ("protocol: SSL, mechanism: PLAIN", "security.mechanism"),
    ],
)
def test_what_a_client_would_refuse_is_reported_at_its_keyword_or_as_missing(words, path):
    _, (problem,) = settings(words)

    assert problem.startswith(f"{path}: ")


def test_where_the_protocol_is_wrong_nothing_else_is_judged():
    _, (problem,) = settings("protocol: TLS, ca: /c")

    assert problem.startswith("security.protocol: ")
