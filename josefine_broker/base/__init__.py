"""Ids, errors, limits and ports that every layer may use. Imports nothing of ours."""
