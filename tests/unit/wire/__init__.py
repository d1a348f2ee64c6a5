"""The wire format against kio, an independent reading of Kafka's message schemas."""
