"""Users select topics by the names of streams and sinks."""

import pytest

from headwater.errors import InvalidInput, NotFound
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.deployment import Deployment
from headwater.services.viewable_topics import ViewableTopics

ELSEWHERE = KafkaAccess(bootstrap_servers="kafka.example:9092", security_protocol="PLAINTEXT")


def no_deployment(owner: str, config_id: str) -> Deployment:
    raise AssertionError("a stream has no deployment")


@pytest.fixture
def topics() -> ViewableTopics:
    by_stream = {"base.log": KafkaTopic("logs", ELSEWHERE), "base.log.zerolag": KafkaTopic("fast", ELSEWHERE)}
    return ViewableTopics(Bindings(by_stream), no_deployment)


def test_a_stream_is_on_the_cluster_of_its_binding(topics: ViewableTopics) -> None:
    stream = topics.selected("alice", "base/log")
    assert (stream.cluster, stream.topic, stream.selector) == (ELSEWHERE, "logs", "base/log")
    own = topics.selected("alice", "base/decoded_log")
    assert (own.cluster, own.topic) == (None, "stream.base.decoded_log")
    assert not own.shows_headers


def test_the_zerolag_stream_has_a_suffix(topics: ViewableTopics) -> None:
    selected, chosen = topics.selected("alice", "base/log.zerolag"), topics.stream("base", "log", zerolag=True)
    assert selected == chosen
    assert (selected.topic, selected.selector) == ("fast", "base/log.zerolag")


@pytest.mark.parametrize("selector", ["", "/", "base", "base/", "/log"])
def test_other_forms_are_refused(topics: ViewableTopics, selector: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        topics.selected("alice", selector)
    assert raised.value.parameter == "of"


def test_an_unknown_entity_is_named_with_its_selector(topics: ViewableTopics) -> None:
    """A request may have several selectors."""
    with pytest.raises(NotFound, match='"of" has "base/blob"'):
        topics.selected("alice", "base/blob")
