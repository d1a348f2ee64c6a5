"""The configuration: what is refused, with which words, and that conf/broker.yaml is the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from conf.generate import NODES, TARGET, files, node_yaml
from josefine_broker.config.broker_config import (
    BrokerConfig,
    ConfigError,
    HostPort,
    Listener,
    Voter,
    key_paths,
    load_config,
)
from josefine_broker.config.values import parse_listener


def written(tmp_path: Path, text: str, name: str = "broker.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def refusal(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text), env or {})
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_collector_without_a_path_has_that_of_otlp(tmp_path: Path) -> None:
    for given, expected in (("http://a:1", "http://a:1/v1/traces"), ("https://a/b", "https://a/b")):
        config = load_config(None, {}, {"telemetry.traces": given})
        assert config.telemetry.traces == expected


def test_session_timeouts_of_groups_are_in_order(tmp_path: Path) -> None:
    message = refusal(tmp_path, "group:\n  min_session_timeout_ms: 2000000\n")

    assert "min_session_timeout_ms must not be above max_session_timeout_ms" in message


def test_shipped_files_are_what_the_model_generates() -> None:
    for path, text in files().items():
        assert path.read_text() == text, f"{path}: run: python -m conf.generate"


@pytest.mark.parametrize("id_", NODES)
def test_every_address_of_a_node_is_in_its_file(id_: int) -> None:
    """Who replaces 127.0.0.1 there leaves none behind in the defaults."""
    text = node_yaml(id_).replace("127.0.0.1", f"host{id_}")

    config = BrokerConfig.model_validate(yaml.safe_load(text))

    assert config.text.port is None  # and so no address either
    assert "127.0.0.1" not in str(config.model_dump(mode="json", exclude={"text"}))


def test_shipped_nodes_form_one_cluster_and_share_no_address() -> None:
    """Checklist row 13."""
    nodes = [load_config(path, {}) for path in files() if path != TARGET]

    assert [node.broker.id for node in nodes] == [1, 2, 3]
    assert len({node.raft.voters for node in nodes}) == 1
    addresses = [
        (address.host, address.port)
        for node in nodes
        for address in (*node.broker.listeners, node.raft.listener, node.admin.address)
        if address is not None
    ]
    assert len(set(addresses)) == 9


def test_shipped_nodes_share_no_directory_even_with_a_broker_that_stands_alone() -> None:
    alone, *nodes = (load_config(path, {}).broker.data_dir for path in (None, *files()))

    assert len({alone, *nodes}) == 4  # conf/broker.yaml has the default


def test_shipped_file_says_the_defaults() -> None:
    assert load_config(TARGET, {}) == load_config(None, {})


def test_shipped_file_has_every_key_with_its_default_in_the_comment() -> None:
    text = TARGET.read_text()
    for key in key_paths():
        assert f"\n  {key.partition('.')[2]}: " in text
    assert text.count("Default:") == len(key_paths())


def test_toml_and_yaml_by_suffix_say_the_same(tmp_path: Path) -> None:
    """Checklist row 12."""
    yaml_file = written(tmp_path, "broker:\n  id: 7\nlog:\n  flush_messages: 1\n")
    toml_file = written(tmp_path, "[broker]\nid = 7\n[log]\nflush_messages = 1\n", "b.toml")
    assert load_config(yaml_file, {}) == load_config(toml_file, {})
    with pytest.raises(ConfigError, match=r"suffix must be \.yaml, \.yml or \.toml"):
        load_config(written(tmp_path, "", "broker.ini"), {})


def test_unknown_key_names_file_line_and_nearest_known_key(tmp_path: Path) -> None:
    """Checklist row 12."""
    message = refusal(tmp_path, "broker:\n  id: 1\n  data_dri: x\n")
    assert message == (
        f"{tmp_path}/broker.yaml:3: unknown key broker.data_dri;"
        " the nearest known key is broker.data_dir"
    )
    assert "nearest known key is network" in refusal(tmp_path, "netwrok:\n  x: 1\n")
    # A key in the wrong section is named where it belongs.
    assert "nearest known key is log.flush_ms" in refusal(tmp_path, "raft:\n  flush_ms: 10\n")


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("broker:\n  id: 0\n", 2, "broker.id: input should be greater than or equal to 1, got 0"),
        ("broker:\n  id: '1'\n", 2, "broker.id: input should be a valid integer"),
        ("broker:\n  id: true\n", 2, "broker.id: input should be a valid integer"),
        ("raft:\n  election_timeout_ms: 4\n", 2, "greater than or equal to 5, got 4"),
        ("log:\n\n  retention_ms: -1\n", 3, "log.retention_ms: input should be greater than"),
        ("log:\n  timestamp_type: Now\n", 2, "log.timestamp_type: input should be 'CreateTime'"),
        ("admin:\n  address: here\n", 2, "admin.address: must be host:port, got 'here'"),
        ("admin:\n  address: 1.2.3.400:80\n", 2, "'1.2.3.400' in '1.2.3.400:80' is not an IPv4"),
        ("admin:\n  address: localhost:99999\n", 2, "must be a number from 0 to 65535"),
        ("admin:\n  address: 'a b:1'\n", 2, "'a b' in 'a b:1' is not a host name"),
        ("telemetry:\n  traces: ftp://a\n", 2, "must be an http or https address of a collector"),
        ("telemetry:\n  traces: http://a:b@c\n", 2, "must be an address without a user's name"),
        ("telemetry:\n  sample_ratio: 0\n", 2, "sample_ratio: input should be greater than 0"),
        ("admin:\n  tls: true\n", 2, "admin.tls needs tls.certificate"),
        ("text:\n  port: 0\n  tls: true\n", 3, "text.tls needs tls.certificate"),
        ("text:\n  tls: true\n", 2, "text: tls has no effect without port"),
        ("admin:\n  address:\n  tls: true\n", 3, "admin: tls has no effect without address"),
        ("broker:\n  listeners: [127.0.0.1:9092]\n", 2, "must be NAME://host:port"),
        ("broker:\n  listeners: ['A://x:1', 'A://x:2']\n", 2, "'A' is used twice"),
        ("broker:\n  listeners: ['a/b://x:1']\n", 2, "listener name 'a/b'"),
        ("broker: 5\n", 1, "broker: must be a section with keys, got 5"),
        ("broker:\n  id: 1\n  id: 2\n", 3, "broker.id: is given twice"),
        ("a: [\n", 2, "is not YAML"),
    ],
)
def test_invalid_value_is_refused_with_its_line_and_key(
    tmp_path: Path, text: str, line: int, expected: str
) -> None:
    """Checklist row 12."""
    message = refusal(tmp_path, text)
    assert message.startswith(f"{tmp_path}/broker.yaml:{line}:")
    assert expected in message


@pytest.mark.parametrize(
    ("text", "ms"),
    [("7d", 604_800_000), ("500ms", 500), ("12h", 43_200_000), ("1w", 604_800_000), ("1000", 1000)],
)
def test_times_may_have_a_unit(tmp_path: Path, text: str, ms: int) -> None:
    in_file = load_config(written(tmp_path, f"log:\n  retention_ms: {text}\n"), {})
    in_environment = load_config(None, {"JOSEFINE__LOG__RETENTION_MS": text})

    assert in_file.log.retention_ms == in_environment.log.retention_ms == ms


def test_text_that_is_no_time_is_refused_with_the_unit(tmp_path: Path) -> None:
    for key in ("log.retention_ms", "raft.election_timeout_ms"):
        section, name = key.split(".")
        message = refusal(tmp_path, f"{section}:\n  {name}: soon\n")
        assert f"{key}: must be a whole number of milliseconds, or a time like 500ms" in message
        assert message.endswith("got 'soon'")


def test_voters_that_share_an_address_are_named(tmp_path: Path) -> None:
    """Else each of them dials itself, and is told that there are two of it."""
    text = "raft:\n  voters: ['1@a:9093', '2@b:9093', '3@a:9093']\n"

    assert "voters 1 and 3 have the same address a:9093" in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("listener", "promise"),
    [
        ("SASL-OUT://a:1", "SASL"),
        ("TLS-EXTERNAL://a:1", "TLS"),
        ("http://a:1", "HTTP"),
    ],
)
def test_listener_that_promises_what_it_does_not_speak_is_refused(
    tmp_path: Path, listener: str, promise: str
) -> None:
    """It was served in plaintext."""
    message = refusal(tmp_path, f"broker:\n  listeners: ['{listener}']\n")

    assert f"broker.yaml:2: broker.listeners '{listener}' asks for {promise}:" in message
    assert "broker.listener_security_protocol_map" in message


SPEAKING = """\
broker:
  listeners: ['PLAINTEXT://a:1', 'SSL://a:2', 'OUT-TLS://a:3', 'inside://a:4']
  listener_security_protocol_map: ['OUT-TLS:SSL']
tls:
  certificate: broker.pem
"""


def test_listener_speaks_what_the_map_says_else_what_its_name_is_else_plaintext(
    tmp_path: Path,
) -> None:
    config = load_config(written(tmp_path, SPEAKING), {})

    spoken = {each.name: config.protocol_of(each.name).value for each in config.broker.listeners}
    assert spoken == {
        "PLAINTEXT": "PLAINTEXT",
        "SSL": "SSL",
        "OUT-TLS": "SSL",
        "inside": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("broker: {listeners: ['SSL://a:1']}", "speaks SSL, which needs tls.certificate"),
        ("broker: {listener_security_protocol_map: ['X:SSL']}", "'X', which is not in broker.list"),
        ("broker: {listener_security_protocol_map: ['P:TLS']}", "'TLS' in 'P:TLS' is not one of"),
        ("broker: {listener_security_protocol_map: ['P']}", "must be NAME:PROTOCOL, got 'P'"),
        ("broker: {listener_security_protocol_map: ['P:SSL', 'P:SSL']}", "'P' is named twice"),
        ("broker: {listeners: ['SASL_PLAINTEXT://a:1']}", "which needs sasl.users"),
        (
            "broker: {listeners: ['SASL_PLAINTEXT://a:1']}\nsasl: {users: u}\n"
            "raft: {listener: '127.0.0.1:9', seeds: ['b:9']}",
            "brokers have no password: name a listener that speaks SSL or PLAINTEXT",
        ),
        ("sasl: {mechanisms: [GSSAPI]}", "sasl.mechanisms"),
        ("sasl: {mechanisms: [OAUTHBEARER]}", "which needs oauthbearer.jwks: the keys"),
        ("sasl: {mechanisms: [OAUTHBEARER]}\noauthbearer: {jwks: j}", "jwks needs issuer"),
        (
            "sasl: {mechanisms: [OAUTHBEARER]}\noauthbearer: {jwks: j, issuer: i}",
            "jwks needs audience",
        ),
        (
            "oauthbearer: {jwks: j, issuer: i, audience: [a]}",
            "oauthbearer.jwks has no effect: sasl.mechanisms does not name OAUTHBEARER",
        ),
        ("oauthbearer: {jwks: 'http://a/keys'}", "must be a file's path or an https address"),
        ("oauthbearer: {jwks: 'https://u:p@a/keys'}", "an address without a user's name"),
        ("oauthbearer: {jwks: 7}", "must be a file's path or an https address"),
        ("oauthbearer: {clock_skew_ms: -1}", "oauthbearer.clock_skew_ms"),
        ("oauthbearer: {principal_claim: ''}", "oauthbearer.principal_claim"),
        ("sasl: {mechanisms: []}", "sasl.mechanisms"),
        ("sasl: {iterations: 1000}", "sasl.iterations"),
        ("tls: {client_auth: required}", "client_auth needs ca"),
        ("tls: {client_auth: perhaps}", "tls.client_auth"),
        ("tls: {version_min: '1.1'}", "tls.version_min"),
        ("raft_tls: {certificate: c}", "raft_tls: certificate needs ca"),
        ("raft_tls: {ca: c}", "raft_tls: ca needs certificate: without one Raft is plaintext"),
        ("raft_tls: {certificate: c, ca: d, allowed_names: 'CN=a,O=b'}", "must be a list"),
        ("raft_tls: {certificate: c, ca: d, allowed_names: [a]}", "(CN=NAME), got 'a'"),
        (
            "tls: {ca: d, client_auth: required}\nraft_tls: {certificate: c, ca: d}",
            "raft_tls.ca d is tls.ca too, whose clients could vote",
        ),
    ],
)
def test_security_that_does_not_fit_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    assert words in refusal(tmp_path, text)


@pytest.mark.parametrize("secret", ["hunter2", "4711"])
def test_secret_in_the_place_of_its_place_is_refused_and_not_repeated(
    tmp_path: Path, secret: str
) -> None:
    message = refusal(tmp_path, f"tls:\n  key_password: {secret}\n")

    assert "broker.yaml:2: tls.key_password: must be file:PATH or env:NAME" in message
    assert secret not in message


def test_listener_names_that_promise_nothing_are_names() -> None:
    for name in ("PLAINTEXT", "PLAINTEXT_OUTSIDE", "internal", "SSLIP", "CLASSLESS"):
        assert parse_listener(f"{name}://a:1").name == name


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (
            "broker: {listeners: ['P://127.0.0.1:7']}\nraft: {listener: '127.0.0.1:7'}",
            "broker.listeners P://127.0.0.1:7",
            "raft.listener 127.0.0.1:7",
        ),
        (
            "broker: {listeners: ['P://0.0.0.0:7']}\nadmin: {address: '127.0.0.1:7'}",
            "broker.listeners P://0.0.0.0:7",
            "admin.address 127.0.0.1:7",
        ),
        (
            "raft: {listener: 'localhost:7'}\nadmin: {address: '127.0.0.1:7'}",
            "raft.listener localhost:7",
            "admin.address 127.0.0.1:7",
        ),
        (
            "broker: {listeners: ['A://[::]:7', 'B://10.0.0.1:7']}",
            "broker.listeners A://[::]:7",
            "broker.listeners B://10.0.0.1:7",
        ),
    ],
)
def test_two_listeners_on_one_port_are_refused(
    tmp_path: Path, text: str, one: str, other: str
) -> None:
    message = refusal(tmp_path, text + "\n")

    assert f"{one} and {other} cannot share port 7" in message


@pytest.mark.parametrize(
    "listeners",
    [
        ["A://127.0.0.1:0", "B://127.0.0.1:0"],
        ["A://127.0.0.1:7", "B://127.0.0.2:7"],
        ["A://0.0.0.0:7", "B://[::1]:7"],
        ["A://0.0.0.0:7", "B://0.0.0.0:8"],
    ],
)
def test_listeners_that_do_not_meet_are_fine(listeners: list[str]) -> None:
    loaded = load_config(None, {}, {"broker.listeners": listeners})

    assert [str(each) for each in loaded.broker.listeners] == listeners


def test_advertised_listener_must_be_bound_and_dialable(tmp_path: Path) -> None:
    text = "broker:\n  advertised_listeners: ['OUTSIDE://broker.example:9092']\n"
    assert "names 'OUTSIDE', which is not in broker.listeners" in refusal(tmp_path, text)
    text = "broker:\n  advertised_listeners: ['PLAINTEXT://0.0.0.0:9092']\n"
    assert "cannot be dialed by clients" in refusal(tmp_path, text)
    assert "at least one listener" in refusal(tmp_path, "broker:\n  listeners: []\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("voters: ['1@127.0.0.1:9093', '1@127.0.0.1:9094']", "voter 1 is listed twice"),
        ("voters: ['127.0.0.1:9093']", "must be id@host:port, got '127.0.0.1:9093'"),
        ("voters: ['0@a:9093']", "must be id@host:port"),
        ("voters: ['1@a:0']", "has port 0, which cannot be dialed"),
        ("voters: ['2@a:9093']", "does not list this broker (1); to join use raft.seeds"),
        ("voters: ['1@a:9999']", "has broker 1 at a:9999, but raft.listener is 127.0.0.1:9093"),
        ("{voters: ['1@a:9093'], seeds: ['b:9093']}", "exclude each other"),
        ("seeds: b", "must be host:port, got 'b'"),
        ("id: 2", "raft.id 2 must equal broker.id 1"),
        ("voters_max: 10", "less than or equal to 9"),
    ],
)
def test_members_that_cannot_form_or_join_a_cluster_are_refused(
    tmp_path: Path, text: str, expected: str
) -> None:
    """Checklist row 12."""
    text = text if text.startswith("{") else "{" + text + "}"
    assert expected in refusal(tmp_path, f"raft: {text}\n")


@pytest.mark.parametrize(
    ("raft", "line"),
    [
        ("listener: a:9\n  voters: ['3@b:9093']", 5),
        ("voters_max: 3\n  voters:\n    - 3@b:9094", 5),
        ("seeds: ['b:9093']\n  voters: ['3@b:9093']", 5),
        ("voters_max: 3\n  listener: a:9\n  id: 4", 6),
        ("heartbeat_timeout_ms: 900\n  voters_max: 3", 4),
        ("voters_max: 3\n  election_timeout_ms: 150", 5),
    ],
    ids=["voters", "a longer list", "seeds", "id", "heartbeat", "election"],
)
def test_rule_over_several_keys_names_the_line_of_a_key_that_it_is_about(
    tmp_path: Path, raft: str, line: int
) -> None:
    message = refusal(tmp_path, f"broker:\n  id: 3\nraft:\n  {raft}\n")

    assert message.startswith(f"{tmp_path}/broker.yaml:{line}: ")


def test_session_outlasts_heartbeat(tmp_path: Path) -> None:
    message = refusal(tmp_path, "cluster:\n  session_timeout_ms: 400\n")
    assert "at least twice heartbeat_interval_ms, got 400 and 250" in message


def test_inter_broker_listener_is_one_of_the_listeners(tmp_path: Path) -> None:
    message = refusal(tmp_path, "broker:\n  inter_broker_listener: INTERNAL\n")
    assert "'INTERNAL' is not in broker.listeners" in message


def test_election_timeout_outlasts_heartbeat(tmp_path: Path) -> None:
    message = refusal(tmp_path, "raft:\n  election_timeout_ms: 150\n")
    assert "at least twice heartbeat_timeout_ms, got 150 and 100" in message


def test_environment_overrides_every_kind_of_key(tmp_path: Path) -> None:
    """Checklist row 12."""
    env = {
        "JOSEFINE__BROKER__ID": "3",
        "JOSEFINE__RAFT__ID": "3",
        "JOSEFINE__RAFT__VOTERS": "1@a:9093, 3@[::1]:9093",
        "JOSEFINE__LOG__RETENTION_MS": "null",
        "JOSEFINE__BROKER__AUTO_CREATE_TOPICS": "false",
        "JOSEFINE__BROKER__LISTENERS": "IN://127.0.0.1:0,OUT://[::1]:9093",
        "JOSEFINE__ADMIN__ADDRESS": "localhost:0",
        "JOSEFINE_FAIL": "not a configuration key",
    }
    config = load_config(written(tmp_path, "raft:\n  id: 2\n"), env)
    assert config.broker.id == 3
    assert config.raft.voters == (Voter(1, "a", 9093), Voter(3, "::1", 9093))
    assert config.own_voter == Voter(3, "::1", 9093)
    assert config.log.retention_ms is None
    assert config.broker.auto_create_topics is False
    assert config.broker.listeners == (Listener("IN", "127.0.0.1", 0), Listener("OUT", "::1", 9093))
    assert config.admin.address == HostPort("localhost", 0)


def test_environment_errors_name_the_variable(tmp_path: Path) -> None:
    message = refusal(tmp_path, "", {"JOSEFINE__RAFT__IDD": "3"})
    assert message == (
        "environment JOSEFINE__RAFT__IDD: unknown key raft.idd; the nearest known key is raft.id"
    )
    message = refusal(tmp_path, "", {"JOSEFINE__RAFT__ID": "0"})
    assert message.startswith("environment JOSEFINE__RAFT__ID: raft.id: input should be greater")


def test_command_line_goes_before_the_environment(tmp_path: Path) -> None:
    env = {"JOSEFINE__BROKER__ID": "3"}
    config = load_config(written(tmp_path, ""), env, {"broker.id": 4})
    assert config.broker.id == 4


def test_configuration_is_frozen() -> None:
    config = load_config(None, {})
    with pytest.raises(Exception, match="frozen"):
        config.broker.id = 2  # type: ignore[misc]


def test_missing_and_binary_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_config(tmp_path / "none.yaml", {})
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_config(path, {})


def keys_of_the_model() -> dict[str, dict[str, Any]]:
    """Path → its JSON schema, with that of its kind where null is one."""
    schema = BrokerConfig.model_json_schema()
    sections = {
        name: schema["$defs"][section["$ref"].rpartition("/")[2]]
        for name, section in schema["properties"].items()
    }
    return {
        f"{name}.{key}": {**next(iter(found.get("anyOf", ({},)))), **found}
        for name, section in sections.items()
        for key, found in section["properties"].items()
    }


NUMBERS = {name: key for name, key in keys_of_the_model().items() if key.get("type") == "integer"}


def test_every_key_has_a_meaning_and_every_number_its_unit_in_its_name() -> None:
    keys = keys_of_the_model()
    units = {name: key["unit"] for name, key in NUMBERS.items() if "unit" in key}

    assert sorted(keys) == sorted(key_paths())
    assert [name for name, key in keys.items() if not key.get("description")] == []
    assert set(units.values()) == {"ms", "bytes"}
    assert [name for name, unit in units.items() if unit not in name.split(".")[1].split("_")] == []


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_a_lower_bound(name: str) -> None:
    with pytest.raises(ConfigError, match=name.partition(".")[2]):
        load_config(None, {}, {name: -1})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("broker: {listeners: ['TEXT://127.0.0.1:1']}", "which is that of text.port"),
        ("text: {port: 9092}", "cannot share port 9092"),
        ("text: {port: 70000}", "text.port: input should be less than or equal to 65535"),
        ("text: {acks: '0'}", "text.acks: input should be 'all' or '1'"),
        (
            "broker: {advertised_listeners: ['TEXT://a:1']}",
            "names 'TEXT', which is not in broker.listeners",
        ),
        (
            "broker: {inter_broker_listener: TEXT}\ntext: {port: 1}",
            "inter_broker_listener 'TEXT' is not in broker.listeners",
        ),
    ],
)
def test_text_listener_that_cannot_be_is_refused(tmp_path: Path, text: str, why: str) -> None:
    assert why in refusal(tmp_path, text)


def test_text_listener_is_off_until_it_has_a_port_and_may_be_advertised(tmp_path: Path) -> None:
    assert BrokerConfig().text.port is None

    text = "broker: {advertised_listeners: ['TEXT://a:1']}\ntext: {port: 0}"
    config = load_config(written(tmp_path, text), {})

    assert config.broker.advertised_listeners == (Listener("TEXT", "a", 1),)


GUARDED = "acls:\n  enabled: true\n"
AMONG_OTHERS = (
    "raft:\n  listener: 127.0.0.1:9192\n  voters: ['1@127.0.0.1:9192', '2@127.0.0.1:9292']\n"
)


def test_brokers_that_have_no_name_are_told_of_before_they_refuse_each_other(
    tmp_path: Path,
) -> None:
    said = refusal(tmp_path, AMONG_OTHERS + GUARDED)

    assert "acls.enabled needs acls.inter_broker_principal, or tls.client_auth: required" in said
    assert "brokers come through PLAINTEXT, which asks nobody for a name" in said
    alone = load_config(written(tmp_path, GUARDED), {})
    assert alone.acls.super_principals == frozenset()
    assert load_config(None, {}).acls.super_principals is None


def test_listener_that_makes_super_users_is_to_be_named(tmp_path: Path) -> None:
    named = GUARDED + "  inter_broker_principal: User:brokers\n"

    assert "name that listener" in refusal(tmp_path, AMONG_OTHERS + named)
    listeners = (
        "broker:\n  listeners: ['PLAINTEXT://127.0.0.1:1', 'INSIDE://127.0.0.1:2']\n"
        "  inter_broker_listener: INSIDE\n"
    )
    config = load_config(written(tmp_path, AMONG_OTHERS + named + listeners), {})
    assert config.acls.super_principals == {"User:brokers"}


@pytest.mark.parametrize("name", ["alice", "User:", "User:*", "Group:alice"])
def test_super_user_is_one_user(tmp_path: Path, name: str) -> None:
    assert f"must be User:NAME, got '{name}'" in refusal(
        tmp_path, f"acls:\n  super_users: ['{name}']\n"
    )


@pytest.mark.parametrize(
    "jwks", ["keys.json", "https://authority.test/keys", "http://127.0.0.1:1/keys"]
)
def test_tokens_alone_need_no_file_of_users(tmp_path: Path, jwks: str) -> None:
    text = (
        "broker: {listeners: ['SASL_PLAINTEXT://a:1']}\nsasl: {mechanisms: [OAUTHBEARER]}\n"
        f"oauthbearer: {{jwks: '{jwks}', issuer: i, audience: [a, b]}}\n"
    )

    config = load_config(written(tmp_path, text), {})

    assert (config.oauthbearer.jwks, config.oauthbearer.audience) == (jwks, ("a", "b"))
    with_scram = text.replace("[OAUTHBEARER]", "[OAUTHBEARER, PLAIN]")
    assert "which needs sasl.users" in refusal(tmp_path, with_scram)
