"""A client's operation against the brokers of a world."""

from typing import Any

from tests.unit.josefine_broker.api.world import World
from tests.unit.josefine_broker.client.driver import Driver


def run_operation(world: World, operation: Any, answer: Any = None) -> Any:
    """What it returns; `answer` is asked instead of the world."""
    driver = Driver(answer or (lambda call: world.ask(call.api_key, call.request)))
    return driver.run(lambda t, d: operation(driver.session, t, d))
