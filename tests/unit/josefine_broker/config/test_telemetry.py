"""Where traces go, and which share of them."""

import pytest
from pydantic import ValidationError

from josefine_broker.config.telemetry import TRACES_PATH, TelemetrySection


@pytest.mark.parametrize(
    ("address", "whole"),
    [
        ("http://h:4318", f"http://h:4318{TRACES_PATH}"),
        ("https://h/", f"https://h{TRACES_PATH}"),
        ("https://h/own", "https://h/own"),
    ],
)
def test_an_address_without_a_path_gets_that_of_the_protocol(address: str, whole: str) -> None:
    assert TelemetrySection(traces=address).traces == whole


@pytest.mark.parametrize("address", ["h:4318", "grpc://h:4317", "http://", 5, "http://u:p@h"])
def test_what_is_no_collectors_address_is_refused(address: object) -> None:
    with pytest.raises(ValidationError):
        TelemetrySection(traces=address)


@pytest.mark.parametrize(("ratio", "is_good"), [(1, True), (0.001, True), (0, False), (2, False)])
def test_a_share_is_above_zero_up_to_all(ratio: float, is_good: bool) -> None:
    if is_good:
        assert TelemetrySection(sample_ratio=ratio).sample_ratio == ratio
    else:
        with pytest.raises(ValidationError):
            TelemetrySection(sample_ratio=ratio)
