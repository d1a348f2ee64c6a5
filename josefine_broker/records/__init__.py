"""Record batches, Kafka's format v2: headers, checksums, compression, single records."""
