"""Dead letters of a pipeline: written, summarised, replayed."""
