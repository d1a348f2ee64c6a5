"""Configuration-driven pipelines: YAML, a validated plan, Structured Streaming queries."""
