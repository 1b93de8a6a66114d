"""Twins of the stores in memory: they pass the same contract suites and serve unit tests."""
