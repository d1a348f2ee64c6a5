"""Verbs that any Kafka cluster could answer: topics, records, groups, users, configurations."""
