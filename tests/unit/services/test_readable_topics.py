"""Users select topics by the names of streams and sinks."""

import pytest

from headwater.errors import InvalidInput
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.deployment import Deployment
from headwater.services.readable_topics import ReadableTopics

ELSEWHERE = KafkaAccess(bootstrap_servers="kafka.example:9092", security_protocol="PLAINTEXT")


def no_deployment(owner: str, config_id: str) -> Deployment:
    raise AssertionError("a stream has no deployment")


@pytest.fixture
def topics() -> ReadableTopics:
    by_stream = {"base.log": KafkaTopic("logs", ELSEWHERE), "base.log.zerolag": KafkaTopic("fast", ELSEWHERE)}
    return ReadableTopics(Bindings(by_stream), no_deployment)


def test_a_stream_is_on_the_cluster_of_its_binding(topics: ReadableTopics) -> None:
    stream = topics.named("alice", "base/log")
    assert (stream.cluster, stream.topic, stream.of) == (ELSEWHERE, "logs", "base/log")
    own = topics.named("alice", "base/decoded_log")
    assert (own.cluster, own.topic) == (None, "stream.base.decoded_log")
    assert not own.shows_headers


def test_the_zerolag_stream_has_a_suffix(topics: ReadableTopics) -> None:
    named, chosen = topics.named("alice", "base/log.zerolag"), topics.stream("base", "log", zerolag=True)
    assert named == chosen
    assert (named.topic, named.of) == ("fast", "base/log.zerolag")


@pytest.mark.parametrize("of", ["", "/", "base", "base/", "/log"])
def test_other_forms_are_refused(topics: ReadableTopics, of: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        topics.named("alice", of)
    assert raised.value.parameter == "of"
