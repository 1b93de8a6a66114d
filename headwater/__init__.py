"""Headwater: firehoses of blockchain records in, just the records a user wants out."""

__version__ = "0.1.0"
