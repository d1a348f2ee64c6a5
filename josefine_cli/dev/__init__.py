"""Verbs that measure and demonstrate: `demo`, `bench`, `perf`."""
