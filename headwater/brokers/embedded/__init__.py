"""The embedded Kafka: a real Apache Kafka broker that runs as a child of this process, for one machine."""

from headwater.brokers.embedded.broker import EmbeddedKafka, prefetch
from headwater.brokers.embedded.jars import fetch_jars

__all__ = ["EmbeddedKafka", "fetch_jars", "prefetch"]
