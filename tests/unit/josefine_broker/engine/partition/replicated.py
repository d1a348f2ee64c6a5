"""What the tests of a replicated topic read in an answer."""

from josefine_broker.engine.purgatory.purgatory import Parked
from tests.unit.josefine_broker.api.replicas import result_of


def error_of(answer: object) -> int:
    return result_of(answer).error_code if isinstance(answer, Parked) else answer.error_code  # type: ignore[attr-defined]
