"""Records that a pipeline could not use: written, summarised, replayed."""
