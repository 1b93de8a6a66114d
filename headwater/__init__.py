"""Headwater filters streams of blockchain records into Kafka topics of its users."""

__version__ = "1.0.0"
