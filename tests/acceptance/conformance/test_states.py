"""Section 3: states and transitions."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from confluent_kafka.admin import AdminClient

from tests.acceptance.conformance.owner import FILTER, FLOW, Owner, filter_path, json
from tests.acceptance.installation import Deployed, Installation, TopicRecord, deploy, deployed, pipeline, reading

STREAM = ("base", "erc721_token_transfer")


def marking(mark: str) -> dict[str, str]:
    """Return a script that adds a mark to each record."""
    return {"type": "v8", "script": f"function process(r) {{ return {{n: r.n, mark: '{mark}'}}; }}"}


def marked(mark: str, **options: Any) -> dict[str, Any]:
    """Return the body of a create request."""
    return pipeline(STREAM[1], STREAM[0], transforms=[marking(mark)], **options)


def topics(installation: Installation, config_id: str) -> set[str]:
    """Return the topics of a configuration that exist on the broker."""
    all_topics = AdminClient({**installation.admin_config(), "log_level": 0}).list_topics(timeout=20).topics
    return {topic for topic in all_topics if config_id in topic}


def feed(installation: Installation, *numbers: int) -> None:
    """Feed records with the same key, so that they stay in order on one partition."""
    installation.feed(*STREAM, [{"n": n, "transaction_hash": "0x1", "log_index": 0} for n in numbers])


def results(records: list[TopicRecord]) -> list[tuple[int, str]]:
    return [(record.json()["n"], record.json()["mark"]) for record in records]


def has_deployment(http: httpx2.Client, config_id: str) -> bool:
    return http.get(f"{FLOW}/{config_id}/deploy").status_code == 200


class TestLife:
    @pytest.mark.proves(
        "3/a-pipeline-configuration-is-either-without",
        "3/Create pipeline",
        "3/configuration, not deployed: Deploy",
        "3/deployed: Teardown",
        "3/configuration, not deployed: Delete pipeline",
        "1/deployment",
        "1/pipelines",
        "6/deployed-pipelines-deliver-processed-records-to",
    )
    def test_create_deploy_teardown_delete(self, installation: Installation, http: httpx2.Client) -> None:
        flow = json(http.post(FLOW, json=marked("a")), 201)
        path = f"{FLOW}/{flow['id']}"
        assert flow["id"]
        assert flow["created_at"]
        assert not has_deployment(http, flow["id"])
        assert topics(installation, flow["id"]) == set()

        answer = json(http.post(f"{path}/deploy"))
        assert has_deployment(http, flow["id"])
        deployment = Deployed(flow["id"], flow, answer)
        assert topics(installation, flow["id"]) == {deployment.sink["topic"], answer["dead_letter"]["topic"]}
        assert len(installation.workers_of(deployment)) == 1
        with reading(deployment.sink) as reader:  # with the credentials of the deploy response
            feed(installation, 1)
            assert results(reader.read(1)) == [(1, "a")]

        json(http.post(f"{path}/teardown"))
        assert installation.workers_of(deployment) == []
        assert topics(installation, flow["id"]) == set()
        assert not has_deployment(http, flow["id"])
        kept = json(http.get(path))
        assert kept["pipeline_config"] == flow["pipeline_config"]

        json(http.delete(path))
        json(http.get(path), 404)
        assert flow["id"] not in [one["id"] for one in json(http.get(FLOW))]

    @pytest.mark.proves("3/deployed: Delete pipeline", "4.2/DELETE /api/v1/flow/{config_id}")
    def test_delete_while_deployed(self, installation: Installation, http: httpx2.Client) -> None:
        deployment = deploy(http, marked("a"))
        assert json(http.delete(f"{FLOW}/{deployment.id}")) == {
            "message": f"Pipeline {deployment.id} successfully deleted"
        }
        json(http.get(f"{FLOW}/{deployment.id}"), 404)
        assert installation.workers_of(deployment) == []
        assert topics(installation, deployment.id) == set()


class TestChanges:
    @pytest.mark.proves(
        "3/deployed: Update pipeline (PUT config)",
        "3/deployed: Deploy again",
        "4.2/PUT /api/v1/flow/{config_id}",
        "4.2/POST /api/v1/flow/{config_id}/deploy",
    )
    def test_an_update_takes_effect_at_the_next_deploy(self, installation: Installation, http: httpx2.Client) -> None:
        with deployed(http, marked("old")) as deployment, reading(deployment.sink) as reader:
            path = f"{FLOW}/{deployment.id}"
            updated = json(http.put(path, json=marked("new", name="renamed")))
            assert updated["name"] == "renamed"
            feed(installation, 1)
            assert results(reader.read(1)) == [(1, "old")]
            again = json(http.post(f"{path}/deploy"))  # without a teardown before the update
            assert again["sinks"] == deployment.deploy_response["sinks"]
            feed(installation, 2)
            assert results(reader.read(2)) == [(1, "old"), (2, "new")]
            assert json(http.post(f"{path}/deploy")) == again  # idempotent

    @pytest.mark.proves("3/deployed: Deploy again")
    def test_a_redeploy_neither_loses_nor_repeats_records(
        self, installation: Installation, http: httpx2.Client
    ) -> None:
        with deployed(http, marked("old")) as deployment, reading(deployment.sink) as reader:
            json(http.put(f"{FLOW}/{deployment.id}", json=marked("new")))
            sent = itertools.count()
            feed(installation, next(sent))
            with ThreadPoolExecutor(1) as pool:
                deploying = pool.submit(http.post, f"{FLOW}/{deployment.id}/deploy")
                while not deploying.done():
                    feed(installation, *itertools.islice(sent, 10))
            json(deploying.result())
            feed(installation, last := next(sent))
            reader.read(last + 1)
            found = results(reader.records)
            assert [number for number, _ in found] == list(range(last + 1))
            assert found == sorted(
                found, key=lambda result: result[1] == "new"
            )  # all outputs of the old script come before those of the new one
            assert (found[0][1], found[-1][1]) == ("old", "new")

    @pytest.mark.proves(
        "3/deployed: Patch transform, or replace transforms list",
        "1/transforms-on-a-deployed-pipeline-can",
        "4.2/PATCH /api/v1/flow/{config_id}/transforms/{transform_uid}",
        "4.2/PUT /api/v1/flow/{config_id}/transforms",
    )
    def test_changed_transforms_run_when_the_request_returns(
        self, installation: Installation, http: httpx2.Client
    ) -> None:
        with deployed(http, marked("first")) as deployment, reading(deployment.sink) as reader:
            path = f"{FLOW}/{deployment.id}/transforms"
            patched = json(http.patch(f"{path}/{deployment.uid()}", json=marking("second")))
            assert (patched["uid"], patched["type"]) == (deployment.uid(), "v8")
            assert patched["script"] == marking("second")["script"]
            feed(installation, 1)
            assert results(reader.read(1)) == [(1, "second")]
            replaced = json(http.put(path, json=[marking("third"), marking("fourth")]))
            assert [transform["script"] for transform in replaced] == [
                marking("third")["script"],
                marking("fourth")["script"],
            ]
            feed(installation, 2)
            assert results(reader.read(2)) == [(1, "second"), (2, "fourth")]

    @pytest.mark.proves(
        "3/filter-values-and-dataset-entries-change", "1/set-filters", "4.3/changes-take-effect-immediately"
    )
    def test_filter_values_change_without_a_change_of_state(
        self, installation: Installation, http: httpx2.Client
    ) -> None:
        filter_ = {**FILTER, "filter_expr": "root = this.n"}
        with deployed(http, pipeline(*STREAM[::-1], transforms=[filter_, marking("a")])) as deployment:
            before = json(http.get(f"{FLOW}/{deployment.id}/deploy"))
            with reading(deployment.sink) as reader:
                for number in range(1, 4):
                    json(http.post(filter_path(deployment.configuration), json={"values": [str(number)]}))
                    feed(installation, number, 99)
                    assert results(reader.read(number)) == [(n, "a") for n in range(1, number + 1)]
                json(http.put(filter_path(deployment.configuration), json={"values": ["99"]}))
                feed(installation, 1, 99)
                assert results(reader.read(4))[3:] == [(99, "a")]
            assert json(http.get(f"{FLOW}/{deployment.id}/deploy")) == before

    def test_teardown_without_a_deployment_changes_nothing(self, alice: Owner) -> None:
        path = f"{FLOW}/{alice.create()['id']}"
        answer = json(alice.http.post(f"{path}/teardown"))
        assert answer == json(alice.http.post(f"{path}/teardown"))
