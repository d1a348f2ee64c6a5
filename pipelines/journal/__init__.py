"""The journal's replicator as a Spark job."""
