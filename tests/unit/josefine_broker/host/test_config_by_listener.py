"""What single listeners have for themselves in a broker's configuration: how it adds to what all
have, and what of it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_broker.config.broker_config import BrokerConfig, ConfigError, load_config

LISTENERS = """\
broker:
  listeners: ['OUTSIDE://a:1', 'INSIDE://a:2', 'LOGIN://a:3', 'PLAIN://a:4']
  listener_security_protocol_map: ['OUTSIDE:SSL', 'INSIDE:SSL', 'LOGIN:SASL_SSL']
sasl: {users: u%s}
tls:
  certificate: c
  key: k
  key_password: file:p
"""


def loaded(
    tmp_path: Path, more: str, sasl: str = "", env: dict[str, str] | None = None
) -> BrokerConfig:
    file = tmp_path / "broker.yaml"
    file.write_text(LISTENERS % sasl + more)
    return load_config(file, env or {})


def refusal(tmp_path: Path, more: str, sasl: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, more, sasl)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{tmp_path}/broker.yaml:")


def test_what_a_listener_does_not_say_is_that_of_all(tmp_path: Path) -> None:
    config = loaded(tmp_path, "  by_listener: {INSIDE: {ca: d, client_auth: required}}\n")

    inside, outside = config.tls.of("INSIDE"), config.tls.of("OUTSIDE")
    assert (str(inside.certificate), str(inside.key), str(inside.key_password)) == (
        "c",
        "k",
        "file:p",
    )
    assert (str(inside.ca), inside.client_auth) == ("d", "required")
    assert (outside.ca, outside.client_auth) == (None, "none")


def test_certificate_comes_with_its_own_key_and_password(tmp_path: Path) -> None:
    """Those of another certificate could only be wrong."""
    own = loaded(tmp_path, "  by_listener: {INSIDE: {certificate: e}}\n").tls.of("INSIDE")

    assert (str(own.certificate), own.key, own.key_password) == ("e", None, None)


def test_environment_sets_what_a_listener_has_whatever_the_case_of_its_name(tmp_path: Path) -> None:
    env = {
        "JOSEFINE__TLS__BY_LISTENER__INSIDE__CA": "f",
        "JOSEFINE__TLS__BY_LISTENER__OUTSIDE__VERSION_MIN": "'1.3'",
    }
    config = loaded(tmp_path, "  by_listener: {INSIDE: {ca: d, client_auth: required}}\n", env=env)

    assert (str(config.tls.of("INSIDE").ca), config.tls.of("INSIDE").client_auth) == (
        "f",
        "required",
    )
    assert [config.tls.of(name).version_min for name in ("OUTSIDE", "INSIDE")] == ["1.3", "1.2"]


def test_mechanisms_of_a_listener_replace_those_of_all(tmp_path: Path) -> None:
    config = loaded(tmp_path, "", ", mechanisms_by_listener: {LOGIN: [PLAIN]}")

    assert config.sasl.of("LOGIN") == ("PLAIN",)
    assert config.sasl.of("OTHER") == ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("INSDE: {ca: d}", "INSDE is not in broker.listeners; the nearest listener is INSIDE"),
        ("PLAIN: {ca: d}", "PLAIN has no effect: that listener speaks PLAINTEXT, not TLS"),
        ("INSIDE: {ca: d}, inside: {ca: d}", "INSIDE is given twice, in different capitals"),
        ("INSIDE: 5", "INSIDE: must be a section with keys, got 5"),
        (
            "INSIDE: {client_auth: perhaps}",
            "INSIDE.client_auth: input should be 'none', 'requested' or 'required', got 'perhaps'",
        ),
        (
            "INSIDE: {key: k}",
            "INSIDE: key needs certificate: that of tls has its own, got {'key': 'k'}",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_its_line(
    tmp_path: Path, own: str, said: str
) -> None:
    assert refusal(tmp_path, f"  by_listener: {{{own}}}\n") == f"9: tls.by_listener.{said}"


def test_misspelt_key_is_told_the_nearest_one_there(tmp_path: Path) -> None:
    assert refusal(tmp_path, "  by_listener: {INSIDE: {client_auht: none}}\n") == (
        "9: unknown key tls.by_listener.INSIDE.client_auht;"
        " the nearest known key is tls.by_listener.INSIDE.client_auth"
    )


def test_clients_certificates_need_an_authority_there_or_above(tmp_path: Path) -> None:
    message = refusal(tmp_path, "  by_listener: {INSIDE: {client_auth: required}}\n")

    assert message.startswith("9: tls: by_listener.INSIDE.client_auth needs ca, there or above")


def test_secret_in_a_misspelt_or_a_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    for key in ("key_password", "key_pasword"):
        message = refusal(
            tmp_path, f"  by_listener: {{INSIDE: {{certificate: e, {key}: hunter2}}}}\n"
        )
        assert "hunter2" not in message
        assert "key_password" in message


@pytest.mark.parametrize(
    ("sasl", "said"),
    [
        (", mechanisms_by_listener: {INSIDE: [PLAIN]}", "that listener speaks SSL, not SASL"),
        (", mechanisms_by_listener: {LOGIN: [GSSAPI]}", "sasl.mechanisms_by_listener.LOGIN"),
        (", mechanisms_by_listener: {LOGIN: []}", "sasl.mechanisms_by_listener.LOGIN"),
        (", mechanisms_by_listener: {LOGIN: [OAUTHBEARER]}", "needs oauthbearer.jwks"),
    ],
)
def test_mechanisms_that_do_not_fit_are_one_sentence(tmp_path: Path, sasl: str, said: str) -> None:
    assert said in refusal(tmp_path, "", sasl)


def test_clients_of_a_listener_whose_authority_is_that_of_brokers_could_vote(
    tmp_path: Path,
) -> None:
    own = (
        "  by_listener: {INSIDE: {ca: d, client_auth: required}}\n"
        "raft_tls: {certificate: e, ca: d}\n"
    )

    assert "raft_tls.ca d is tls.by_listener.INSIDE.ca too, whose clients could vote" in refusal(
        tmp_path, own
    )


def test_listener_of_brokers_alone_may_ask_for_certificates(tmp_path: Path) -> None:
    """With ACLs, brokers have to have names there, and only there."""
    file = tmp_path / "broker.yaml"
    text = """\
broker: {listeners: ['SSL://a:1', 'INSIDE://a:2'], listener_security_protocol_map: ['INSIDE:SSL'],
  inter_broker_listener: INSIDE}
raft: {seeds: ['b:9'], listener: '127.0.0.1:9'}
acls: {enabled: true, super_users: ['User:CN=a']}
tls: {certificate: c, ca: d, by_listener: {%s: {client_auth: required}}}
"""
    file.write_text(text % "INSIDE")
    assert load_config(file, {}).tls.of("SSL").client_auth == "none"

    file.write_text(text % "SSL")
    with pytest.raises(ConfigError, match="brokers come through INSIDE, which asks nobody"):
        load_config(file, {})


def test_listener_with_a_certificate_of_its_own_needs_no_other(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(
        "broker: {listeners: ['SSL://a:1']}\ntls: {by_listener: {SSL: {certificate: c}}}\n"
    )
    assert str(load_config(file, {}).tls.of("SSL").certificate) == "c"

    file.write_text(
        "broker: {listeners: ['SSL://a:1']}\ntls: {by_listener: {SSL: {version_min: '1.3'}}}\n"
    )
    with pytest.raises(ConfigError, match=r"needs tls\.certificate"):
        load_config(file, {})
