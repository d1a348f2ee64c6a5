"""Location of the commented example file that `josefine pipeline init` writes."""

from pathlib import Path

EXAMPLE = Path(__file__).with_name("example.yaml")
