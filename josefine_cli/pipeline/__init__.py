"""`josefine pipeline`: pipelines written in YAML."""
