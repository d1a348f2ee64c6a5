"""The sources of a pipeline, and the kinds there are."""
