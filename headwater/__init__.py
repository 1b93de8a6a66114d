"""Headwater filters streams of blockchain records and writes the matching records to a topic of the user."""

__version__ = "0.1.0"
