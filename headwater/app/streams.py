"""Which Kafka topic carries which stream."""

import json

from headwater.errors import SetupError
from headwater.model.stream import Bindings
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
