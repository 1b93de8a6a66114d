"""Headwater filters streams of blockchain records into topics of its users."""

__version__ = "0.1.0"
