"""Secrets of a debug bundle: masked by what is known and by their form, else refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_cli.kafka.debug_secrets import (
    MASK,
    SecretFoundError,
    known_secrets,
    masked,
    refuse_secrets,
    without_secrets,
)

SECRET = "open, sesame=1"


def test_secrets_are_those_of_settings_variables_and_of_what_references_lead_to(
    tmp_path: Path,
) -> None:
    (tmp_path / "word").write_text("in a file\n")
    settings = {
        "sasl.username": "ada",
        "sasl.password": "env:WORD",
        "ssl.key.password": f"file:{tmp_path}/word",
    }
    env = {"WORD": "by reference", "AWS_SECRET_ACCESS_KEY": "a/b+c==", "MAX_TOKENS": "1", "X": "y"}

    assert known_secrets(settings, env) == {"by reference", "in a file", "a/b+c=="}
    assert known_secrets({"sasl.password": "x"}, {}) == {"x"}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"login of ada with {SECRET}!", f"login of ada with {MASK}!"),
        ("sasl.password=a b, c\nnext=1", f"sasl.password={MASK}\nnext=1"),
        ('{"password": "x, y", "n": 1}', f'{{"password": "{MASK}", "n": 1}}'),
        ("refused: password=12345 of ada", f"refused: password={MASK} of ada"),
        ("Authorization: Basic YWRhOng=", f"Authorization: {MASK}"),
        ("see http://ada:word@host/x", f"see http://ada:{MASK}@host/x"),
        ("api_key='k1'", f"api_key='{MASK}'"),
    ],
)
def test_a_secret_is_masked_wherever_it_is(text: str, left: str) -> None:
    assert masked(text, [SECRET]) == left


@pytest.mark.parametrize(
    "text",
    [
        "password: file:/run/secrets/word",
        'sasl.password = "env:WORD"',
        "josefine_tokens: 17",
        '"password": null',
        "topic orders, offset 7",
    ],
)
def test_references_counts_and_other_texts_stay(text: str) -> None:
    assert masked(text, ["absent"]) == text


def test_a_configuration_keeps_its_shape_and_its_references() -> None:
    read = {"sasl": {"password": "x", "token": "env:T"}, "ports": [{"secret_key": "y", "n": 1}]}

    assert without_secrets(read) == {
        "sasl": {"password": MASK, "token": "env:T"},
        "ports": [{"secret_key": MASK, "n": 1}],
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.log", "-----BEGIN RSA PRIVATE KEY-----\nMII"),
        ("a.log", f"x {SECRET} y"),
        (f"{SECRET}.log", ""),
    ],
)
def test_a_part_that_still_has_a_secret_is_refused_without_repeating_it(
    name: str, text: str
) -> None:
    with pytest.raises(SecretFoundError) as refused:
        refuse_secrets(name, text, [SECRET])

    assert SECRET not in str(refused.value)
    assert "MII" not in str(refused.value)


def test_a_short_secret_is_masked_as_a_word_so_that_texts_stay_readable() -> None:
    assert masked("a log of a, and: a", ["a"]) == f"{MASK} log of {MASK}, and: {MASK}"
    refuse_secrets("x", "banana", ["an"])
