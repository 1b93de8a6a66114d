"""The conversion of a sink's members to settings of its Kafka topic."""

from dataclasses import replace
from typing import Any

import pytest

from headwater.brokers.base import OUTPUT_TOPIC_CONFIG
from headwater.controller.topic_settings import creation_settings, needed_settings, without_compaction
from headwater.model.deployment import DeployedRevision, Deployment
from headwater.model.sink import KafkaSink
from tests.unit.controller.world import FLOW, deployment

TOPIC = f"flow.{FLOW}.out"


def sink(**members: Any) -> KafkaSink:
    return KafkaSink(uid="s1", type="kafka", name="out", **members)


def revisions(*sinks: KafkaSink) -> Deployment:
    """Return a deployment whose revisions, oldest first, have these sinks."""
    configs = [deployment().config.model_copy(update={"sinks": [each]}) for each in sinks]
    older = [DeployedRevision(number, config, 1) for number, config in enumerate(configs[:-1], 1)]
    return replace(
        deployment(), config=configs[-1], desired_revision=len(configs), previous_revisions=tuple(reversed(older))
    )


def changed(*sinks: KafkaSink) -> dict[str, dict[str, str]]:
    redeployed = revisions(*sinks)
    return needed_settings(redeployed, redeployed.desired_revision_record)


class TestCreation:
    def test_without_members_a_topic_is_as_all_outputs_are(self) -> None:
        assert creation_settings(sink()) == OUTPUT_TOPIC_CONFIG

    @pytest.mark.parametrize(
        ("members", "settings"),
        [
            ({"retention_ms": 3_600_000}, {"retention.ms": "3600000", "segment.ms": "3600000"}),
            ({"retention_ms": 1}, {"retention.ms": "1", "segment.ms": "60000"}),
            ({"retention_ms": 10**10}, {"retention.ms": "10000000000"}),
            ({"retention_bytes": 1 << 33}, {"retention.bytes": str(1 << 33)}),
            ({"retention_bytes": 1}, {"retention.bytes": "1", "segment.bytes": str(4 << 20)}),
            ({"retention_bytes": 80 << 20}, {"retention.bytes": str(80 << 20), "segment.bytes": str(10 << 20)}),
            ({"compression": "none"}, {"compression.type": "uncompressed"}),
            ({"compression": "snappy"}, {"compression.type": "snappy"}),
            ({"cleanup_policy": "compact,delete"}, {"cleanup.policy": "compact,delete"}),
        ],
    )
    def test_members(self, members: dict[str, Any], settings: dict[str, str]) -> None:
        assert creation_settings(sink(**members)) == OUTPUT_TOPIC_CONFIG | settings


class TestChange:
    def test_settings_that_no_revision_set_are_unchanged(self) -> None:
        assert changed(sink(), sink(partitions=4)) == {}

    def test_settings_of_this_revision(self) -> None:
        assert changed(sink(), sink(compression="gzip")) == {TOPIC: {"compression.type": "gzip"}}

    def test_settings_of_earlier_revisions_get_their_defaults(self) -> None:
        before = sink(retention_ms=1, retention_bytes=1, compression="gzip", cleanup_policy="compact")
        names = ("retention.ms", "segment.ms", "retention.bytes", "segment.bytes")
        defaults = {name: OUTPUT_TOPIC_CONFIG[name] for name in names}
        assert changed(before, sink()) == {
            TOPIC: defaults | {"compression.type": "producer", "cleanup.policy": "delete"}
        }

    def test_a_rolled_back_revision_has_its_own_settings(self) -> None:
        redeployed = revisions(sink(compression="gzip"), sink(compression="zstd", cleanup_policy="compact"))
        [first] = redeployed.previous_revisions
        assert needed_settings(redeployed, first) == {TOPIC: {"compression.type": "gzip", "cleanup.policy": "delete"}}

    def test_sinks_of_other_names_have_other_topics(self) -> None:
        other = KafkaSink(uid="s2", type="kafka", name="other", compression="gzip")
        assert changed(other, sink()) == {}

    def test_compaction_waits_for_the_new_workers(self) -> None:
        both = changed(sink(), sink(compression="gzip", cleanup_policy="compact,delete"))
        assert without_compaction(both) == {TOPIC: {"compression.type": "gzip"}}
        assert without_compaction(changed(sink(cleanup_policy="compact"), sink())) == {
            TOPIC: {"cleanup.policy": "delete"}
        }
