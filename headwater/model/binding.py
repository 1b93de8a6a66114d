"""Stream bindings, which map each stream to a Kafka topic or to Google Pub/Sub.

A Kafka topic is in the installation's cluster or in another cluster. A binding to Pub/Sub names a topic or a
subscription, whose full names are `projects/P/topics/T` and `projects/P/subscriptions/S`. docs/stream_bindings.md
describes the bindings file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, TypeAdapter, model_validator

from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.kafka_security import SecurityProtocol, require_consistent
from headwater.model.stream import CATALOG, find_entity, stream_name


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A Kafka topic.

    Attributes:
        topic: The name of the topic.
        access: How to reach the Kafka cluster of the topic; None means the installation's own cluster.
    """

    topic: str
    access: KafkaAccess | None = None


@dataclass(frozen=True, slots=True)
class PubSubTopic:
    """A Pub/Sub topic.

    Each deployment creates a subscription to the topic, in the project of `access`.

    Attributes:
        topic: The full name of the topic.
        access: How to reach Pub/Sub, and the project of the subscriptions.
        deduplicate: Whether a worker drops a message that equals the last message with the same natural key.
    """

    topic: str
    access: PubSubAccess
    deduplicate: bool = False


@dataclass(frozen=True, slots=True)
class PubSubSubscription:
    """An existing Pub/Sub subscription. Only one deployment at a time may read it.

    Attributes:
        subscription: The full name of the subscription.
        access: How to reach Pub/Sub.
    """

    subscription: str
    access: PubSubAccess


Binding = KafkaTopic | PubSubTopic | PubSubSubscription


def binding_name(binding: Binding) -> str:
    """Return the name of the topic or of the subscription, for error messages and worker specs."""
    return binding.subscription if isinstance(binding, PubSubSubscription) else binding.topic


@dataclass(frozen=True, slots=True)
class Bindings:
    """The bindings of all streams.

    Attributes:
        by_stream: The bindings in the bindings file, by stream name. A stream without an entry is bound to the topic
            `stream.<name>` of the installation's Kafka cluster. A zerolag stream, which has the records of the chain's
            newest blocks and may retract them, is bound only when it has an entry.
    """

    by_stream: Mapping[str, Binding] = field(default_factory=lambda: MappingProxyType({}))

    def find(self, chain: str, entity: str, *, zerolag: bool = False) -> Binding | None:
        """Return the binding of a stream; None for an unbound or unknown stream."""
        if find_entity(chain, entity) is None:
            return None
        name = stream_name(chain, entity, zerolag=zerolag)
        return self.by_stream.get(name, None if zerolag else KafkaTopic(f"stream.{name}"))

    def installation_topic(self, chain: str, entity: str, *, zerolag: bool = False) -> str | None:
        """Return the topic of a stream on the installation's Kafka cluster.

        Returns None when the stream is not on this cluster.
        """
        binding = self.find(chain, entity, zerolag=zerolag)
        return binding.topic if isinstance(binding, KafkaTopic) and binding.access is None else None

    def installation_topics(self) -> Iterator[tuple[str, str]]:
        """Yield (stream name, topic) for each stream on the installation's Kafka cluster.

        The streams have the order of the catalog.
        """
        for name, chain, entity, zerolag in _all_streams():
            if topic := self.installation_topic(chain, entity, zerolag=zerolag):
                yield name, topic

    def all(self) -> Mapping[str, Binding]:
        """Return the bindings of all bound streams of the catalog, by stream name."""
        bindings = {name: self.find(chain, entity, zerolag=zerolag) for name, chain, entity, zerolag in _all_streams()}
        return {name: binding for name, binding in bindings.items() if binding is not None}

    def pubsub_accesses(self) -> frozenset[PubSubAccess]:
        """Return how to reach each Pub/Sub project of the bindings."""
        bindings = self.by_stream.values()
        return frozenset(
            binding.access for binding in bindings if isinstance(binding, PubSubTopic | PubSubSubscription)
        )

    def kafka_accesses(self) -> frozenset[KafkaAccess]:
        """Return how to reach each Kafka cluster of the bindings, except the installation's own."""
        accesses = (binding.access for binding in self.by_stream.values() if isinstance(binding, KafkaTopic))
        return frozenset(access for access in accesses if access is not None)


def _all_streams() -> Iterator[tuple[str, str, str, bool]]:
    """Yield (stream name, chain, entity, zerolag) for every stream of the catalog."""
    for chain in CATALOG:
        for entity in chain.entities:
            for zerolag in (False, True):
                yield stream_name(chain.name, entity.name, zerolag=zerolag), chain.name, entity.name, zerolag


# The models of the bindings file.

_STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
_FULL_NAME = re.compile(r"projects/[^/]+/(topics|subscriptions)/[A-Za-z][\w.~+%-]{2,254}", re.ASCII)
"""The full name of a topic or a subscription. It may start with `goog`, as the names of Google's own topics do."""

NonEmptyText = Annotated[str, Field(min_length=1)]


class _KafkaEntry(KafkaAccess):
    model_config = _STRICT

    topic: NonEmptyText
    bootstrap_servers: NonEmptyText
    security_protocol: SecurityProtocol = "SASL_SSL"

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        require_consistent(self, explicit_fields=self.model_fields_set - {"topic", "bootstrap_servers"})
        return self

    def binding(self) -> KafkaTopic:
        return KafkaTopic(self.topic, KafkaAccess(**self.model_dump(exclude={"topic"})))


class _PubSubEntry(BaseModel):
    model_config = _STRICT

    project: Annotated[str, Field(pattern=r"^[a-z][a-z0-9.:-]{4,}[a-z0-9]$")]
    topic: str = ""
    subscription: str = ""
    credentials_file: str = ""
    endpoint: str = ""
    deduplicate: Annotated[bool, Strict()] = False

    @model_validator(mode="after")
    def _has_topic_or_subscription(self) -> Self:
        if bool(self.topic) == bool(self.subscription):
            raise ValueError("needs a topic or a subscription, and not both")
        if self.deduplicate and self.subscription:
            raise ValueError(
                "deduplicate needs a topic: other programs may read an existing subscription and receive a part of it"
            )
        if self.topic:
            _require_full_name(self._full_topic, "topics")
        else:
            _require_full_name(self._full_subscription, "subscriptions")
        return self

    @property
    def _full_topic(self) -> str:
        """The full name of the topic, which may be in another project."""
        return _full_name(self.project, "topics", self.topic)

    @property
    def _full_subscription(self) -> str:
        return _full_name(self.project, "subscriptions", self.subscription)

    def binding(self) -> PubSubTopic | PubSubSubscription:
        access = PubSubAccess(
            project=self.project, credentials_file=self.credentials_file, endpoint=self.endpoint.removeprefix("http://")
        )
        if self.topic:
            return PubSubTopic(self._full_topic, access, self.deduplicate)
        return PubSubSubscription(self._full_subscription, access)


def _require_full_name(name: str, kind: str) -> None:
    """Raise ValueError when the text is not the full name of a topic or a subscription."""
    match = _FULL_NAME.fullmatch(name)
    if match is None or match[1] != kind:
        raise ValueError(
            f"{name} is not a Pub/Sub name: use projects/<project>/{kind}/<name>, or <name> alone, which has a letter, "
            "then 2 to 254 letters, digits or -_.~+%"
        )


def _full_name(project: str, kind: str, name: str) -> str:
    return name if not name or name.startswith("projects/") else f"projects/{project}/{kind}/{name}"


class _ExternalBinding(BaseModel):
    model_config = _STRICT

    kafka: _KafkaEntry | None = None
    pubsub: _PubSubEntry | None = None

    @model_validator(mode="after")
    def _has_kafka_or_pubsub(self) -> Self:
        if (self.kafka is None) == (self.pubsub is None):
            raise ValueError('needs "kafka" or "pubsub", and not both')
        return self

    def binding(self) -> Binding:
        entry = self.kafka or self.pubsub
        assert entry is not None
        return entry.binding()


def _require_catalog_stream(name: str) -> str:
    if name not in {stream for stream, *_ in _all_streams()}:
        raise ValueError(
            "is not a stream of the catalog: use <chain>.<entity> or <chain>.<entity>.zerolag, as GET …/streams lists "
            "them"
        )
    return name


_BINDINGS_FILE = TypeAdapter(
    dict[Annotated[str, AfterValidator(_require_catalog_stream)], NonEmptyText | _ExternalBinding],
    config=ConfigDict(hide_input_in_errors=True),
)


def parse_bindings(document: object) -> Bindings:
    """Parse the JSON document in the bindings file.

    Raises pydantic's ValidationError, whose message contains no values.
    """
    entries = _BINDINGS_FILE.validate_python(document)
    return Bindings({stream: _binding(entry) for stream, entry in entries.items()})


def _binding(entry: str | _ExternalBinding) -> Binding:
    return KafkaTopic(entry) if isinstance(entry, str) else entry.binding()
