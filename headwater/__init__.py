"""Headwater filters streams of blockchain records into Kafka topics of its users."""

__version__ = "0.1.0"
