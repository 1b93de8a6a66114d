"""The rows of the interface that nothing proves yet, and why. `*` at a key's end: all ids that begin so."""

PUBSUB = "streams are read from Kafka; a Pub/Sub source does not exist yet"

OPEN = {
    "2.2/source.type": "`kafka` is proven (2.3/hyperliquid), `pubsub` is accepted and shown; " + PUBSUB,
    "2.3/polygon": "catalog and pipelines are proven with the stream bound to a Kafka topic; " + PUBSUB,
    "2.3/base": "catalog and pipelines are proven with the stream bound to a Kafka topic; " + PUBSUB,
    "2.3/solana": "catalog and pipelines are proven with the stream bound to a Kafka topic; " + PUBSUB,
    "3/deployed: Teardown": "workers, topics and the kept configuration are proven; " + PUBSUB + ", so no subscription",
}


def reason(row_id: str) -> str | None:
    """Why a row is open, or None when it must be proven."""
    for key, why in OPEN.items():
        if row_id == key or (key.endswith("*") and row_id.startswith(key[:-1])):
            return why
    return None
