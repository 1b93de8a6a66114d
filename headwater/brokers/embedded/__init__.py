"""The embedded Kafka: a broker for one machine that runs as a child of this process."""

from headwater.brokers.embedded.broker import EmbeddedKafka, prefetch
from headwater.brokers.embedded.jars import fetch_jars

__all__ = ["EmbeddedKafka", "fetch_jars", "prefetch"]
