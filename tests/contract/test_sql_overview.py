"""The contract of OverviewStore."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.model.deployment import Condition, DesiredPhase, ObservedWorker, ObservedWorkerStatus, Phase
from headwater.model.pipeline_state import ConfigurationQuery, ConfigurationSummary, PipelineState
from headwater.model.stored_config import read_pipeline_config
from headwater.stores.protocols.overview import RevisionId
from tests.support.sql import OWNER, T0, SqlStores, a_config, a_deployment, a_flow, at, next_revision, seen

ALL = ConfigurationQuery()
WORKER = ObservedWorker(
    name="d1-0", status=ObservedWorkerStatus.RUNNING, is_ready=False, start_time=T0, not_ready_since=T0
)


def summaries(stores: SqlStores, query: ConfigurationQuery = ALL, limit: int = 100) -> Sequence[ConfigurationSummary]:
    return stores.overview.summaries(OWNER, query, None, limit)


def ids(stores: SqlStores, query: ConfigurationQuery) -> list[str]:
    """Return the ids of the configurations that match, as the caller compares them."""
    return [summary.id for summary in summaries(stores, query) if query.matches(summary)]


def test_a_configuration_without_a_deployment(stores: SqlStores) -> None:
    stores.flows.create(a_flow(external_id="mine"))
    stores.flows.save(next_revision(a_flow(external_id="mine"), name="new"))
    assert summaries(stores) == [
        ConfigurationSummary(
            id="f1",
            name="new",
            external_id="mine",
            tags=("a", "b"),
            revision=2,
            created_at=T0,
            updated_at=at(1),
            is_row_readable=True,
            deployment=None,
        )
    ]


def test_the_effective_revision_of_a_deployment(stores: SqlStores) -> None:
    stores.flows.create(a_flow())
    deployment = stores.deployments.request_deploy(OWNER, "f1", a_deployment())
    stores.deployments.report_workers({"d1": [WORKER]})
    stores.deployments.write_observations([seen(deployment)])
    stores.flows.save(next_revision(a_flow(), pipeline_config=a_config(entity="decoded_log")))
    stores.deployments.request_redeploy(OWNER, "f1")
    (summary,) = summaries(stores)
    assert summary.deployment is not None
    assert (summary.revision, summary.deployment.id) == (2, "d1")
    assert (summary.deployment.stream, summary.deployment.source_epoch) == ("base.log", 1)
    assert (summary.deployment.desired, summary.deployment.condition) == (
        DesiredPhase.RUNNING,
        Condition.ROLLING_OUT,
    )
    assert list(summary.deployment.workers) == [WORKER]
    changed = stores.deployments.active("f1")
    assert changed is not None
    stores.deployments.write_observations([seen(changed)])
    (summary,) = summaries(stores)
    assert summary.deployment is not None
    assert (summary.deployment.stream, summary.deployment.source_epoch) == ("base.decoded_log", 2)


def test_a_requested_teardown_and_an_ended_deployment(stores: SqlStores) -> None:
    stores.flows.create(a_flow())
    stores.deployments.request_deploy(OWNER, "f1", a_deployment())
    stopped = stores.deployments.request_teardown("f1")
    assert summaries(stores)[0].deployment is None
    assert stopped is not None
    stores.deployments.write_observations([seen(stopped, Phase.ABSENT)])
    assert len(summaries(stores)) == 1
    assert summaries(stores)[0].deployment is None


def test_pages_have_each_configuration_once_and_no_foreign_or_deleted_one(stores: SqlStores) -> None:
    for number in range(7):
        stores.flows.create(a_flow(f"f{number}", created_s=number // 2))
    stores.flows.create(a_flow("g", owner="bob"))
    stores.flows.delete(OWNER, "f3")
    found, after = [], None
    while part := stores.overview.summaries(OWNER, ALL, after, 2):
        found += [summary.id for summary in part]
        after = part[-1].position
    assert found == ["f6", "f5", "f4", "f2", "f1", "f0"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WHALE", ["f1"]),
        ("größe", ["f2"]),
        ("GRÖ", ["f2"]),
        ("my-", ["f2"]),
        ("F", ["f2", "f1"]),
        ("%", []),
        ("\\", []),
    ],
)
def test_a_text(stores: SqlStores, text: str, expected: list[str]) -> None:
    stores.flows.create(a_flow("f1", name="Whales"))
    stores.flows.create(a_flow("f2", name="Größe", external_id="My-1", created_s=1))
    assert ids(stores, ConfigurationQuery(text=text)) == expected


def test_a_text_of_letters_that_are_ascii_only_in_lower_case(stores: SqlStores) -> None:
    letters = [chr(code) for code in range(128, sys.maxunicode + 1) if _has_ascii(chr(code).lower())]
    for number, letter in enumerate(letters):
        stores.flows.create(a_flow(str(number), name=letter))
    stores.flows.create(a_flow("9", name="I"))
    assert sorted(map(str.lower, letters)) == ["i\N{COMBINING DOT ABOVE}", "k"]
    assert len(ids(stores, ConfigurationQuery(text="I"))) == 2
    assert len(ids(stores, ConfigurationQuery(text="k"))) == 1


def _has_ascii(text: str) -> bool:
    return any(letter.isascii() for letter in text)


@pytest.mark.parametrize("tag", ["a", 'quote"', "back\\slash", "ä", "100%", "\N{GRINNING FACE}", "[]"])
def test_a_tag(stores: SqlStores, tag: str) -> None:
    stores.flows.create(a_flow("f1", tags=("first", tag)))
    stores.flows.create(a_flow("f2", tags=("first", f"{tag}{tag}"), created_s=1))
    assert ids(stores, ConfigurationQuery(tag=tag)) == ["f1"]


@pytest.mark.parametrize("state", ["draft", "deployed", "paused", "failing", "unreadable"])
def test_no_configuration_in_a_state_is_left_out(stores: SqlStores, state: PipelineState) -> None:
    for number in range(3):
        stores.flows.create(a_flow(f"f{number}", created_s=number))
    stores.deployments.request_deploy(OWNER, "f1", a_deployment("d1"))
    stores.deployments.request_deploy(OWNER, "f2", a_deployment("d2", config_id="f2"))
    stores.deployments.report_workers({"d2": [WORKER]})
    expected = {"draft": {"f0"}, "deployed": {"f1"}, "paused": set(), "failing": {"f2"}, "unreadable": set()}[state]
    now = T0 + timedelta(minutes=2)
    found = summaries(stores, ConfigurationQuery(state=state))
    assert {one.id for one in found if one.state(now, is_pipeline_readable=True) == state} == expected


def test_revisions_that_can_not_be_read(stores: SqlStores) -> None:
    stores.flows.create(a_flow())
    unreadable = read_pipeline_config('{"parallelism": 1000}')
    stores.flows.save(next_revision(a_flow(), pipeline_config=unreadable))
    stores.flows.create(replace(a_flow("f2"), pipeline_config=read_pipeline_config("damaged")))
    asked = [RevisionId("f1", 1), RevisionId("f1", 2), RevisionId("f2", 1), RevisionId("f9", 1)]
    assert stores.overview.sources(asked) == {("f1", 1): ("base", "log")}
    assert stores.overview.sources([]) == {}


def test_many_revisions_are_read_in_parts(stores: SqlStores) -> None:
    wanted = []
    for number in range(5):
        script = f"function process(record) {{ return record }} // {'x' * 400_000}"
        config = a_config(transforms=[{"uid": "t1", "type": "v8", "script": script}])
        stores.flows.create(a_flow(f"f{number}", pipeline_config=config, created_s=number))
        wanted.append(RevisionId(f"f{number}", 1))
    assert stores.overview.sources(wanted).keys() == {*wanted}


def test_times_keep_their_order_to_the_microsecond(stores: SqlStores) -> None:
    stores.flows.create(a_flow("f1"))
    stores.flows.create(replace(a_flow("f0"), created_at=at(0) + timedelta(microseconds=1)))
    assert [summary.id for summary in summaries(stores)] == ["f0", "f1"]
