"""The manual's example runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_example_of_the_manual_runs() -> None:
    text = (ROOT / "raft" / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "values: {'colour': 'blue'}" in done.stdout


def test_the_manual_names_every_file() -> None:
    text = (ROOT / "raft" / "README.md").read_text()

    files = {path.name for path in (ROOT / "raft").glob("*.py")} - {"__init__.py"}

    assert set(re.findall(r"`(\w+\.py)`", text)) == files
