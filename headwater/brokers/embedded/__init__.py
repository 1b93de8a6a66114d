"""The embedded Kafka: a broker for one machine that runs as a child of this process."""

from headwater.brokers.embedded.broker import EmbeddedKafka, prefetch

__all__ = ["EmbeddedKafka", "prefetch"]
