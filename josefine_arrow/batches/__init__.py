"""Record batches to Arrow columns and back: compiled kernels and their Python oracles."""
