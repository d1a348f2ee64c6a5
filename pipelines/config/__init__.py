"""The configuration reader: YAML text to a validated model, and its JSON Schema. Pure."""
