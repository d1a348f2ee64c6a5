"""Shared helpers of all parts of the pipelines."""
