"""The linter: checks of a pipeline file without Spark."""
