"""Record batch v2: views, stamping, checksums, compression, building. No I/O."""
