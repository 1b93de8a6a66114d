"""Where each stream is: on a topic of the own Kafka cluster, on one of another cluster, or on Google Pub/Sub.

docs/streams.md has the file that says so. Resource names of Pub/Sub: `projects/P/topics/T`,
`projects/P/subscriptions/S`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, TypeAdapter, model_validator

from headwater.model.kafka_security import SecurityProtocol, require_consistent
from headwater.model.stream import CATALOG, find_chain, stream_name
from headwater.model.worker import KafkaAccess, PubSubAccess


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic of the own cluster; with `access`, of another one."""

    topic: str
    access: KafkaAccess | None = None


@dataclass(frozen=True, slots=True)
class PubSubTopic:
    """A topic that each deployment makes a subscription of its own to, in the project of `access`.

    Attributes:
        deduplicate: Whether a worker drops a message that equals the last one of its natural key.
    """

    topic: str
    access: PubSubAccess
    deduplicate: bool = False


@dataclass(frozen=True, slots=True)
class PubSubSubscription:
    """A subscription that somebody else made. It is read as it is, by one deployment at a time."""

    subscription: str
    access: PubSubAccess


Binding = KafkaTopic | PubSubTopic | PubSubSubscription


def binding_name(binding: Binding) -> str:
    """What a user or a log line is told of a binding."""
    return binding.subscription if isinstance(binding, PubSubSubscription) else binding.topic


@dataclass(frozen=True, slots=True)
class Bindings:
    """Which stream is where.

    named: by stream name. A stream of the catalog that is not named there is bound to the own topic `stream.<name>`; a
    zerolag feed is bound only when it is named.
    """

    named: Mapping[str, Binding] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, chain: str, entity: str, *, zerolag: bool = False) -> Binding | None:
        """Where a stream is, or None when it has no binding or is not in the catalog."""
        found = find_chain(chain)
        if found is None or found.entity(entity) is None:
            return None
        name = stream_name(chain, entity, zerolag=zerolag)
        return self.named.get(name, None if zerolag else KafkaTopic(f"stream.{name}"))

    def topic(self, chain: str, entity: str, *, zerolag: bool = False) -> str | None:
        """The stream's topic on the own cluster; None when it is not there."""
        binding = self.of(chain, entity, zerolag=zerolag)
        return binding.topic if isinstance(binding, KafkaTopic) and binding.access is None else None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """All streams of the own cluster as (stream name, topic), catalog order."""
        for name, chain, entity, zerolag in _all_streams():
            if topic := self.topic(chain, entity, zerolag=zerolag):
                yield name, topic

    def pubsub(self) -> frozenset[PubSubAccess]:
        """All projects of Pub/Sub that streams come from, and how to reach them."""
        return frozenset(b.access for b in self.named.values() if isinstance(b, PubSubTopic | PubSubSubscription))

    def clusters(self) -> frozenset[KafkaAccess]:
        """All other Kafka clusters that streams come from."""
        return frozenset(b.access for b in self.named.values() if isinstance(b, KafkaTopic) and b.access is not None)


def _all_streams() -> Iterator[tuple[str, str, str, bool]]:
    """Name, chain, entity, zerolag."""
    for chain in CATALOG:
        for entity in chain.entities:
            for zerolag in (False, True):
                yield stream_name(chain.name, entity.name, zerolag=zerolag), chain.name, entity.name, zerolag


# The file.

_STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
_RESOURCE = re.compile(r"projects/[^/]+/(?:topics|subscriptions)/[A-Za-z][\w.~+%-]{2,254}", re.ASCII)
"""A resource name; the last part by the rules of Pub/Sub, without their ban on `goog` in front."""

Text = Annotated[str, Field(min_length=1)]


class _Kafka(KafkaAccess):
    model_config = _STRICT

    topic: Text
    bootstrap_servers: Text
    security_protocol: SecurityProtocol = "SASL_SSL"

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        require_consistent(self, self.model_fields_set - {"topic", "bootstrap_servers"})
        return self

    def binding(self) -> KafkaTopic:
        return KafkaTopic(self.topic, KafkaAccess(**self.model_dump(exclude={"topic"})))


class _PubSub(BaseModel):
    model_config = _STRICT

    project: Annotated[str, Field(pattern=r"^[a-z][a-z0-9.:-]{4,}[a-z0-9]$")]
    topic: str = ""
    subscription: str = ""
    credentials_file: str = ""
    endpoint: str = ""
    deduplicate: Annotated[bool, Strict()] = False

    @model_validator(mode="after")
    def _has_one_resource(self) -> Self:
        if bool(self.topic) == bool(self.subscription):
            raise ValueError("needs a topic or a subscription, and not both")
        if self.deduplicate and self.subscription:
            raise ValueError("deduplicate needs a topic: others may read from a subscription, and get a part of it")
        for name in filter(None, (self._topic, self._subscription)):
            if not _RESOURCE.fullmatch(name):
                raise ValueError(f"{name} is no name of Pub/Sub: a letter, then 2 to 254 letters, digits or -_.~+%")
        return self

    @property
    def _topic(self) -> str:
        """Of another project when it is named in full."""
        return _in_project(self.project, "topics", self.topic)

    @property
    def _subscription(self) -> str:
        return _in_project(self.project, "subscriptions", self.subscription)

    def binding(self) -> PubSubTopic | PubSubSubscription:
        access = PubSubAccess(
            project=self.project, credentials_file=self.credentials_file, endpoint=self.endpoint.removeprefix("http://")
        )
        if self.topic:
            return PubSubTopic(self._topic, access, self.deduplicate)
        return PubSubSubscription(self._subscription, access)


def _in_project(project: str, kind: str, name: str) -> str:
    return name if not name or name.startswith("projects/") else f"projects/{project}/{kind}/{name}"


class _Elsewhere(BaseModel):
    model_config = _STRICT

    kafka: _Kafka | None = None
    pubsub: _PubSub | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.kafka is None) == (self.pubsub is None):
            raise ValueError('needs "kafka" or "pubsub", and not both')
        return self

    def binding(self) -> Binding:
        place = self.kafka or self.pubsub
        assert place is not None
        return place.binding()


def _known(name: str) -> str:
    if name not in {known for known, *_ in _all_streams()}:
        raise ValueError(
            "is no stream: write <chain>.<entity> or <chain>.<entity>.zerolag, as GET …/streams lists them"
        )
    return name


_File = TypeAdapter(
    dict[Annotated[str, AfterValidator(_known)], Text | _Elsewhere], config=ConfigDict(hide_input_in_errors=True)
)


def parse_bindings(document: object) -> Bindings:
    """Bindings from what their file holds, read as JSON. Raises pydantic's ValidationError, which shows no value."""
    found = _File.validate_python(document)
    return Bindings({name: KafkaTopic(b) if isinstance(b, str) else b.binding() for name, b in found.items()})
