"""Which Kafka topic carries which stream."""

import json

from headwater.errors import SetupError
from headwater.model.stream import CATALOG, Bindings, find_chain
from headwater.settings import Settings


def load_bindings(settings: Settings) -> Bindings:
    """The bindings of the settings' file, or the default ones. Raises SetupError when the file is not usable."""
    path = settings.stream_bindings
    if path is None:
        return Bindings()
    try:
        topics = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SetupError(f"The stream bindings in {path} can't be read: {error}.") from error
    if not isinstance(topics, dict) or not all(isinstance(topic, str) for topic in topics.values()):
        raise SetupError(f'{path} must hold one JSON object, like {{"base.log": "my-topic"}}.')
    return Bindings(topics)


def stream_topic(bindings: Bindings, chain: str, stream: str) -> str:
    """The topic of `<entity>` or `<entity>.zerolag`. Raises SetupError when there is no such stream."""
    entity, _, zerolag = stream.partition(".")
    topic = bindings.topic(chain, entity, zerolag=bool(zerolag))
    if topic is None:
        raise SetupError(unknown_stream(chain, entity, zerolag=bool(zerolag)))
    return topic


def zerolag_topic(bindings: Bindings, chain: str, stream: str) -> str:
    """The topic of `<entity>.zerolag`; one that is not bound has the name that it would have by default."""
    entity, _, _ = stream.partition(".")
    return bindings.topic(chain, entity, zerolag=True) or f"stream.{chain}.{stream}"


def unknown_stream(chain: str, entity: str, *, zerolag: bool) -> str:
    """Why a stream has no topic."""
    found = find_chain(chain)
    if found is None:
        return f"There is no chain {chain}. Choose from {', '.join(c.name for c in CATALOG)}."
    if found.entity(entity) is None:
        return f"{chain} has no entity {entity}. Choose from {', '.join(e.name for e in found.entities)}."
    assert zerolag
    return f"The zerolag feed of {chain}.{entity} is not bound. Bind it in the file of HEADWATER_STREAM_BINDINGS."
