"""Confluent's framing of values, and schema registries."""
