"""kio is loaded without Hypothesis, and Hypothesis stays as it was."""

import subprocess
import sys

from hypothesis import strategies

from josefine_broker.base.schemas import _hidden, load_request_schema


def test_a_command_loads_no_test_library() -> None:
    code = (
        "import sys; from josefine_broker.base.schemas import ErrorCode; "
        "sys.exit(any(name.partition('.')[0] == 'hypothesis' for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_package_is_hidden_inside_only() -> None:
    before = sys.modules["hypothesis.strategies"]

    with _hidden("hypothesis"):
        try:
            import hypothesis  # noqa: F401
        except ImportError:
            hidden = True
        else:
            hidden = False

    assert hidden
    assert sys.modules["hypothesis.strategies"] is before is strategies
    assert load_request_schema(3, 12).__name__ == "MetadataRequest"
