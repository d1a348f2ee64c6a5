"""One run of a pipeline: preparation, start, streaming queries, end."""
