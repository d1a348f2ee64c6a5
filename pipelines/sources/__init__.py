"""The sources of a pipeline, by kind."""
