"""Secrets of a client's settings are read from their place, and no error repeats one."""

import pytest

from josefine_broker.client.secret_settings import read_secrets


def test_a_secret_is_read_from_its_file_or_variable_and_other_values_stay(tmp_path) -> None:
    (tmp_path / "p").write_text("hunter2\n")
    settings = {"sasl.password": f"file:{tmp_path}/p", "sasl.username": "env:NAME"}

    assert read_secrets(settings, {}) == {"sasl.password": "hunter2", "sasl.username": "env:NAME"}
    assert read_secrets({"sasl.password": "env:P"}, {"P": "x"}) == {"sasl.password": "x"}
    assert read_secrets({"sasl.password": "plain"}, {}) == {"sasl.password": "plain"}


@pytest.mark.parametrize("place", ["env:GONE", "file:/nowhere/p"])
def test_a_place_without_a_secret_is_an_error_with_its_setting(place: str) -> None:
    with pytest.raises(ValueError, match=r"^sasl\.password: "):
        read_secrets({"sasl.password": place}, {})
