"""Finds the topics whose records a user may look at.

They are the topics of streams, of sinks and of dead letters.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.errors import Conflict, Fault, InvalidInput, NotFound, StoredDataUnreadable
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.deployment import Deployment, sink_topic
from headwater.model.sink import DEAD_LETTER_NAME, TopicSink
from headwater.model.stream import CATALOG, find_chain, stream_name

ZEROLAG_SUFFIX = ".zerolag"


@dataclass(frozen=True, slots=True)
class ReadableTopic:
    """A topic whose records a user may look at.

    Attributes:
        of: The name by which users select the topic: `<chain>/<entity>`, or `<configuration id>/<sink>`.
        cluster: How to reach the Kafka cluster of the topic; None means the installation's own cluster.
        topic: The name of the topic.
        deployment: The configuration and the id of the deployment that owns the topic; None for a stream.
    """

    of: str
    cluster: KafkaAccess | None
    topic: str
    deployment: tuple[str, str] | None = None

    @property
    def shows_headers(self) -> bool:
        """Whether the records are shown with their headers, which only outputs have."""
        return self.deployment is not None

    def missing_error(self) -> NotFound:
        """Return the error for a topic that does not exist."""
        if self.deployment is None:
            return NotFound(
                f"The stream {self.of} has no topic yet. It gets one with its first records, or with the first deploy "
                "of a pipeline that reads it."
            )
        return NotFound(f"{self.of} has no topic yet. Wait until GET …/deploy shows the status deployed.")


class ReadableTopics:
    """Finds the topics that an owner may look at.

    Args:
        bindings: Where this installation reads each stream.
        get_deployment: Returns the deployment of a configuration of an owner, or raises NotFound.
    """

    def __init__(self, bindings: Bindings, get_deployment: Callable[[str, str], Deployment]) -> None:
        self._bindings = bindings
        self._get_deployment = get_deployment

    def stream(self, chain: str, entity: str, *, zerolag: bool, parameter: str = "zerolag") -> ReadableTopic:
        """Return the topic of a stream.

        Raises NotFound when the catalog has no such stream, InvalidInput for the query parameter `parameter` when the
        zerolag stream is not bound, and Conflict when the stream is bound to Google Pub/Sub.
        """
        _require_in_catalog(chain, entity)
        binding = self._bindings.find(chain, entity, zerolag=zerolag)
        name = stream_name(chain, entity, zerolag=zerolag)
        if binding is None:
            detail = f"asks for {name}, and this installation has no zerolag stream of {chain}.{entity}"
            raise InvalidInput("The request was refused.", [Fault(f"/{parameter}", detail)], parameter)
        if not isinstance(binding, KafkaTopic):
            raise Conflict(
                f"The stream {name} is read from Google Pub/Sub, which shows a message only to the subscriber that "
                "takes it. Look at the outputs of a pipeline that reads the stream."
            )
        of = f"{chain}/{entity}{ZEROLAG_SUFFIX if zerolag else ''}"
        return ReadableTopic(of, binding.access, binding.topic)

    def output(self, owner: str, config_id: str, sink: str | None, *, parameter: str = "sink") -> ReadableTopic:
        """Return the topic of a sink, or of the dead letters for the name `dlq`.

        Without a name, it is the first sink that has a topic. Raises NotFound when the configuration is not deployed,
        and InvalidInput for the query parameter `parameter` when no sink with this name has a topic.
        """
        deployment = self._get_deployment(owner, config_id)
        if deployment.unreadable_reason:
            raise StoredDataUnreadable(deployment.unreadable_reason)
        config = deployment.effective_revision.config
        names = [each.name for each in config.sinks if isinstance(each, TopicSink)] + [DEAD_LETTER_NAME]
        name = names[0] if sink is None else sink
        if name not in names:
            is_other_sink = any(each.name == name for each in config.sinks)
            reason = "names a sink without a topic" if is_other_sink else "names no sink of the running revision"
            detail = f"{reason}; choose one of: {', '.join(names)}"
            raise InvalidInput("The request was refused.", [Fault(f"/{parameter}", detail)], parameter)
        return ReadableTopic(
            f"{config_id}/{name}", None, sink_topic(config_id, name), deployment=(config_id, deployment.id)
        )

    def named(self, owner: str, of: str) -> ReadableTopic:
        """Return the topic of `<configuration id>/<sink>` or `<chain>/<entity>[.zerolag]`.

        Raises the errors of `output` and `stream`, and InvalidInput for another form.
        """
        first, slash, second = of.partition("/")
        if not slash or not first or not second:
            detail = (
                "must be <configuration id>/<sink>, <configuration id>/dlq, <chain>/<entity> or "
                "<chain>/<entity>.zerolag"
            )
            raise InvalidInput("The request was refused.", [Fault("/of", detail)], "of")
        if find_chain(first) is None:
            return self.output(owner, first, second, parameter="of")
        entity = second.removesuffix(ZEROLAG_SUFFIX)
        return self.stream(first, entity, zerolag=entity != second, parameter="of")


def _require_in_catalog(chain_name: str, entity: str) -> None:
    chain = find_chain(chain_name)
    if chain is None:
        raise NotFound(f"There is no such chain. Choose from {', '.join(each.name for each in CATALOG)}.")
    if chain.entity(entity) is None:
        entities = ", ".join(each.name for each in chain.entities)
        raise NotFound(f"{chain.name} has no such entity. Choose from {entities}.")
