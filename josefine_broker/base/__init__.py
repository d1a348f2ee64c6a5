"""Ids, errors, limits and ports: what every layer may name. Imports nothing of ours."""
