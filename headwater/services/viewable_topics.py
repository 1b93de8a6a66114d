"""Finds the topics whose records the API shows to a user.

They are the topics of streams, of sinks and of dead letters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from headwater.errors import Conflict, Fault, InvalidInput, NotFound, StoredDataUnreadable
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.deployment import Deployment, sink_topic
from headwater.model.sink import DEAD_LETTER_NAME, TopicSink
from headwater.model.stream import CATALOG, find_chain, stream_name

ZEROLAG_SUFFIX = ".zerolag"


class OwningDeployment(NamedTuple):
    """The deployment to which a topic belongs.

    Attributes:
        config_id: The id of its configuration.
        id: The id of the deployment.
    """

    config_id: str
    id: str


@dataclass(frozen=True, slots=True)
class ViewableTopic:
    """A topic whose records the API shows.

    Attributes:
        selector: The text by which users select the topic: `<chain>/<entity>`, or `<configuration id>/<sink>`. In
            requests and responses, its name is `of`.
        cluster: How to reach the Kafka cluster of the topic; None means the installation's own cluster.
        topic: The name of the topic.
        deployment: The deployment to which the topic belongs; None for a stream.
    """

    selector: str
    cluster: KafkaAccess | None
    topic: str
    deployment: OwningDeployment | None = None

    @property
    def shows_headers(self) -> bool:
        """Whether the records are shown with their headers, which only outputs have."""
        return self.deployment is not None

    def missing_error(self) -> NotFound:
        """Return the error for a topic that does not exist."""
        if self.deployment is None:
            return NotFound(
                f"The stream {self.selector} has no topic yet. It gets one with its first records, or with the first "
                "deploy of a pipeline that reads it."
            )
        return NotFound(f"{self.selector} has no topic yet. Wait until GET …/deploy shows the status deployed.")


MAX_SELECTOR_CHARS_IN_DETAIL = 100
"""Longer selectors are cut to this length in an error."""


class ViewableTopics:
    """Finds the topics whose records the API shows to a user.

    Args:
        bindings: Where this installation reads each stream.
        get_deployment: Returns the deployment of a configuration of an owner, or raises NotFound.
    """

    def __init__(self, bindings: Bindings, get_deployment: Callable[[str, str], Deployment]) -> None:
        self._bindings = bindings
        self._get_deployment = get_deployment

    def stream(self, chain: str, entity: str, *, zerolag: bool, parameter: str = "zerolag") -> ViewableTopic:
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
        selector = f"{chain}/{entity}{ZEROLAG_SUFFIX if zerolag else ''}"
        return ViewableTopic(selector, binding.access, binding.topic)

    def output(self, owner: str, config_id: str, sink: str | None, *, parameter: str = "sink") -> ViewableTopic:
        """Return the topic of a sink, or of the dead letters for the name `dlq`.

        Without a name, it is the first sink that has a topic, or the dead letters when no sink has one. Raises NotFound
        when the configuration is not deployed, StoredDataUnreadable, and InvalidInput for the query parameter
        `parameter` when no sink with this name has a topic.
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
        topic = sink_topic(config_id, name)
        return ViewableTopic(f"{config_id}/{name}", None, topic, OwningDeployment(config_id, deployment.id))

    def selected(self, owner: str, selector: str) -> ViewableTopic:
        """Return the topic of `<configuration id>/<sink>` or `<chain>/<entity>[.zerolag]`.

        Raises the errors of `output` and `stream`, and InvalidInput for another form. A NotFound names the selector,
        since a request may have several.
        """
        try:
            return self._find_selected(owner, selector)
        except NotFound as error:
            shown = selector[:MAX_SELECTOR_CHARS_IN_DETAIL]
            raise NotFound(f'The query parameter "of" has "{shown}". {error.detail}') from error

    def _find_selected(self, owner: str, selector: str) -> ViewableTopic:
        first, slash, second = selector.partition("/")
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
