"""Deployments: /api/v1/flow/{config_id}/deploy and …/teardown."""

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from headwater.api import deployments
from headwater.brokers.base import DeploymentResources, TopicSpec
from headwater.errors import RedisUnavailable
from headwater.model.deployment import Condition, LogLine, Observation, ObservedWorker, ObservedWorkerStatus, Phase
from headwater.model.metric import MetricsDelta, PartitionCounts
from headwater.model.parallelism import Scaling
from headwater.services.deployments import Deployments
from headwater.services.ids import new_id
from headwater.services.redaction import redactor
from tests.support.waiting import until
from tests.unit.api.installation import FLOW, Installation, User, installation

STARTED = datetime(2026, 1, 2, 3, 4, 5, 123000, UTC)


@pytest.fixture
def config_id(alice: User) -> str:
    config_id: str = alice.create(sinks=[{"type": "kafka", "name": "a"}, {"type": "kafka", "name": "b"}])["id"]
    return config_id


class TestDeploy:
    def test_the_response_has_topics_and_credentials(
        self, headwater: Installation, alice: User, config_id: str
    ) -> None:
        saved = alice.get(f"{FLOW}/{config_id}").json()
        response = alice.post(f"{FLOW}/{config_id}/deploy")
        assert response.status_code == 200
        body = response.json()
        deployment = headwater.database.deployments.active(config_id)
        assert deployment is not None
        sinks = body.pop("sinks")
        assert body == {
            "message": f"Pipeline {config_id} successfully deployed",
            "status": "deployed",
            "config_id": config_id,
            "revision": 1,
            "desired_revision": 1,
            "condition": "Stable",
            "reason": "",
            "workers": 1,
            "rewind": None,
            "dead_letter": {"topic": f"flow.{config_id}.dlq"},
        }
        for sink, of in zip(sinks, saved["pipeline_config"]["sinks"], strict=True):
            snippets = sink.pop("snippets")
            assert sink == {
                "uid": of["uid"],
                "name": of["name"],
                "type": "kafka",
                "topic": f"flow.{config_id}.{of['name']}",
                "bootstrap_servers": "kafka.example:9092",
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "SCRAM-SHA-512",
                "username": f"dep-{deployment.id}",
                "password": deployment.reader_password,
                "consumer_group": f"dep-{deployment.id}.main",
            }
            assert set(snippets) == {"python", "node", "java", "kcat"}
            assert all(sink["topic"] in text and sink["password"] in text for text in snippets.values())

    def test_the_number_of_workers_follows_the_load(self, headwater: Installation, alice: User) -> None:
        config_id = alice.create(parallelism={"min": 2, "max": 6})["id"]
        bounds = {"min": 2, "max": 6}
        deployed = alice.post(f"{FLOW}/{config_id}/deploy").json()
        assert deployed["workers"] == 2
        assert deployed["scaling"] == {**bounds, "workers": 2, "reason": "", "changed_at": None}
        deployment = headwater.database.deployments.active(config_id)
        assert deployment is not None
        scaling = Scaling(workers=5, reason="2 workers fell behind.", changed_at=STARTED)
        headwater.database.deployments.write_scaling({deployment.id: scaling})
        shown = {
            **bounds,
            "workers": 5,
            "reason": "2 workers fell behind.",
            "changed_at": "2026-01-02T03:04:05.123Z",
        }
        deployed = alice.get(f"{FLOW}/{config_id}/deploy").json()
        assert (deployed["workers"], deployed["scaling"]) == (5, shown)
        assert alice.get(f"{FLOW}/{config_id}/deploy/stats").json()["scaling"] == shown

    def test_concurrent_deploys_create_one_deployment(
        self, headwater: Installation, alice: User, config_id: str
    ) -> None:
        sent = [alice.start("POST", f"{FLOW}/{config_id}/deploy") for _ in range(50)]
        answers = [response.result() for response in sent]
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.text for answer in answers}) == 1
        assert len(headwater.database.deployments.list_active()) == 1

    def test_after_a_teardown_has_new_credentials(self, alice: User, config_id: str) -> None:
        first = alice.post(f"{FLOW}/{config_id}/deploy").json()["sinks"][0]
        alice.post(f"{FLOW}/{config_id}/teardown")
        second = alice.post(f"{FLOW}/{config_id}/deploy").json()["sinks"][0]
        assert first["topic"] == second["topic"]
        assert first["username"] != second["username"]
        assert first["password"] != second["password"]

    def test_the_response_has_the_reason_and_a_retry_works(
        self, headwater: Installation, alice: User, config_id: str
    ) -> None:
        headwater.controller.reasons = ["The source topic stream.base.log does not exist."]
        body = alice.problem(alice.post(f"{FLOW}/{config_id}/deploy"), 422, "deploy-failed")
        assert body["detail"] == "The source topic stream.base.log does not exist."
        assert body["errors"] == [{"pointer": "", "detail": body["detail"]}]
        seen = alice.get(f"{FLOW}/{config_id}/deploy").json()
        assert (seen["status"], seen["condition"], seen["reason"]) == ("failed", "Failed", body["detail"])
        assert (seen["revision"], seen["desired_revision"]) == (None, 1)
        assert alice.post(f"{FLOW}/{config_id}/deploy").status_code == 200

    def test_rolled_back_is_a_failure(self, headwater: Installation, alice: User, config_id: str) -> None:
        alice.post(f"{FLOW}/{config_id}/deploy")
        deployment = headwater.database.deployments.active(config_id)
        assert deployment is not None
        flow = headwater.database.flows.get("alice", config_id)
        headwater.database.flows.save(replace(flow, revision=2))
        headwater.controller.rolls_back_to = 1
        headwater.controller.reasons = ["worker-0 died twice"]
        body = alice.problem(alice.post(f"{FLOW}/{config_id}/deploy"), 422, "deploy-failed")
        assert body["detail"] == "worker-0 died twice"
        seen = alice.get(f"{FLOW}/{config_id}/deploy").json()
        assert (seen["status"], seen["condition"]) == ("deployed", "RolledBack")
        assert (seen["revision"], seen["desired_revision"]) == (1, 2)

    def test_still_going_on_at_the_timeout(self) -> None:
        with installation(deploy_timeout_s=0.3) as headwater:
            alice = headwater.user("alice")
            headwater.controller.asleep = True
            path = f"{FLOW}/{alice.create()['id']}"
            alice.problem(alice.post(f"{path}/deploy"), 503, "deploy-pending")
            seen = alice.get(f"{path}/deploy").json()
            assert (seen["status"], seen["condition"], seen["revision"]) == ("deploying", "RollingOut", None)
            headwater.controller.asleep = False
            alice.finish("POST", f"{path}/deploy")

    def test_a_concurrent_teardown(self, headwater: Installation, alice: User, config_id: str) -> None:
        headwater.controller.asleep = True
        deploy = alice.start("POST", f"{FLOW}/{config_id}/deploy")
        until(lambda: headwater.database.deployments.active(config_id) is not None)
        teardown = alice.start("POST", f"{FLOW}/{config_id}/teardown")
        alice.problem(deploy.result(), 409, "conflict")
        again = alice.start("POST", f"{FLOW}/{config_id}/deploy")
        assert not again.done(), "a deploy waits for a teardown that goes on"
        headwater.controller.asleep = False
        assert teardown.result().status_code == 200
        assert again.result().status_code == 200

    def test_the_wait_for_a_teardown_is_part_of_the_timeout(self) -> None:
        with installation(deploy_timeout_s=3) as headwater:
            alice = headwater.user("alice")
            path = f"{FLOW}/{alice.create()['id']}/deploy"
            alice.post(path)
            headwater.controller.asleep = True
            (deployment,) = headwater.database.deployments.list_active()
            headwater.database.deployments.request_teardown(deployment.config_id)
            began = time.monotonic()
            again = alice.start("POST", path)
            time.sleep(1.5)
            gone = Observation(deployment.id, Phase.ABSENT, None, deployment.generation + 1, Condition.STABLE)
            headwater.database.deployments.write_observations([gone])
            alice.problem(again.result(), 503, "deploy-pending")
            assert time.monotonic() - began < 4
            assert alice.get(path).json()["status"] == "deploying"

    def test_another_owners_resource_is_not_found(self, bob: User, config_id: str) -> None:
        bob.problem(bob.post(f"{FLOW}/{config_id}/deploy"), 404, "not-found")

    def test_waiting_requests_use_no_thread(self, headwater: Installation, alice: User) -> None:
        headwater.controller.asleep = True
        ids = [alice.create(transforms=[])["id"] for _ in range(60)]
        deploys = [alice.start("POST", f"{FLOW}/{config_id}/deploy") for config_id in ids]
        until(lambda: len(headwater.database.deployments.list_active()) == len(ids))
        assert len(alice.get(FLOW).json()) == len(ids), "60 waiting deploys must not use up the 40 threads"
        headwater.controller.asleep = False
        assert {deploy.result().status_code for deploy in deploys} == {200}


class TestCredentials:
    def test_only_the_password_changes(self, alice: User, config_id: str) -> None:
        before = alice.post(f"{FLOW}/{config_id}/deploy").json()
        response = alice.post(f"{FLOW}/{config_id}/deploy/credentials")
        assert response.status_code == 200
        after = response.json()
        assert alice.get(f"{FLOW}/{config_id}/deploy").json() == after
        for old, new in zip(before["sinks"], after["sinks"], strict=True):
            assert old.pop("password") != new["password"]
            assert new.pop("password") in new.pop("snippets")["kcat"]
            del old["snippets"]
            assert old == new

    def test_not_deployed(self, alice: User, bob: User, config_id: str) -> None:
        alice.problem(alice.post(f"{FLOW}/{config_id}/deploy/credentials"), 404, "not-found")
        alice.post(f"{FLOW}/{config_id}/deploy")
        bob.problem(bob.post(f"{FLOW}/{config_id}/deploy/credentials"), 404, "not-found")

    def test_a_concurrent_teardown(self, headwater: Installation, alice: User, config_id: str) -> None:
        alice.post(f"{FLOW}/{config_id}/deploy")
        headwater.controller.asleep = True
        rotation = alice.start("POST", f"{FLOW}/{config_id}/deploy/credentials")
        while (active := headwater.database.deployments.active(config_id)) and active.credentials_version == 1:
            pass
        teardown = alice.start("POST", f"{FLOW}/{config_id}/teardown")
        alice.problem(rotation.result(), 409, "conflict")
        headwater.controller.asleep = False
        assert teardown.result().status_code == 200


class TestLogs:
    def test_newest_first(self, headwater: Installation, alice: User, config_id: str) -> None:
        alice.post(f"{FLOW}/{config_id}/deploy")
        deployment = headwater.database.deployments.active(config_id)
        assert deployment is not None
        lines = [LogLine(time=STARTED, worker="w-0", source="script", message=f"line {n}") for n in range(3)]
        headwater.database.deployments.write_logs({deployment.id: lines})
        response = alice.get(f"{FLOW}/{config_id}/deploy/logs?limit=2")
        assert response.json() == {
            "lines": [
                {
                    "time": "2026-01-02T03:04:05.123Z",
                    "worker": "w-0",
                    "source": "script",
                    "level": "info",
                    "message": f"line {n}",
                }
                for n in (2, 1)
            ]
        }

    @pytest.mark.parametrize("limit", ["0", "1001", "x", "1_0"])
    def test_bounds(self, alice: User, config_id: str, limit: str) -> None:
        response = alice.get(f"{FLOW}/{config_id}/deploy/logs?limit={limit}")
        assert set(alice.faults(response)) == {"/limit"}

    def test_not_deployed(self, alice: User, config_id: str) -> None:
        alice.problem(alice.get(f"{FLOW}/{config_id}/deploy/logs"), 404, "not-found")


class TestRead:
    def test_returns_what_deploy_returned(self, alice: User, config_id: str) -> None:
        deployed = alice.post(f"{FLOW}/{config_id}/deploy").json()
        assert alice.get(f"{FLOW}/{config_id}/deploy").json() == deployed

    def test_not_deployed(self, alice: User, config_id: str) -> None:
        body = alice.problem(alice.get(f"{FLOW}/{config_id}/deploy"), 404, "not-found")
        assert "not deployed" in body["detail"]

    def test_another_owners_resource_is_not_found(self, alice: User, bob: User, config_id: str) -> None:
        alice.post(f"{FLOW}/{config_id}/deploy")
        bob.problem(bob.get(f"{FLOW}/{config_id}/deploy"), 404, "not-found")


class TestTeardown:
    def test_removes_the_deployment_and_keeps_the_configuration(self, alice: User, config_id: str) -> None:
        alice.post(f"{FLOW}/{config_id}/deploy")
        response = alice.post(f"{FLOW}/{config_id}/teardown")
        assert response.status_code == 200
        assert response.json() == {"message": f"Pipeline {config_id} successfully torn down"}
        assert alice.get(f"{FLOW}/{config_id}/deploy").status_code == 404
        assert alice.get(f"{FLOW}/{config_id}").status_code == 200

    def test_is_idempotent(self, alice: User, config_id: str) -> None:
        for _ in range(2):
            assert alice.post(f"{FLOW}/{config_id}/teardown").status_code == 200

    def test_still_going_on_at_the_timeout(self) -> None:
        with installation(deploy_timeout_s=0.3) as headwater:
            alice = headwater.user("alice")
            path = f"{FLOW}/{alice.create()['id']}"
            alice.post(f"{path}/deploy")
            headwater.controller.asleep = True
            alice.problem(alice.post(f"{path}/teardown"), 503, "deploy-pending")
            assert alice.get(f"{path}/deploy").json()["status"] == "terminating"
            alice.problem(alice.delete(path), 503, "deploy-pending")
            alice.problem(alice.get(path), 404, "not-found")

    def test_another_owners_resource_is_not_found(self, alice: User, bob: User, config_id: str) -> None:
        alice.post(f"{FLOW}/{config_id}/deploy")
        bob.problem(bob.post(f"{FLOW}/{config_id}/teardown"), 404, "not-found")
        assert alice.get(f"{FLOW}/{config_id}/deploy").status_code == 200


class TestStats:
    def test_counts_the_workers(self, headwater: Installation, alice: User, config_id: str) -> None:
        alice.post(f"{FLOW}/{config_id}/deploy")
        deployment = headwater.database.deployments.active(config_id)
        assert deployment is not None
        workers = [
            ObservedWorker(
                name="w-0", status=ObservedWorkerStatus.RUNNING, is_ready=True, start_time=STARTED, spec_hash="5e"
            ),
            ObservedWorker(name="w-1", status=ObservedWorkerStatus.PENDING, is_ready=False, start_time=STARTED),
            ObservedWorker(
                name="w-2",
                status=ObservedWorkerStatus.OOM_KILLED,
                is_ready=False,
                is_crash_looping=True,
                is_oom_killed=True,
                restart_count=4,
                start_time=STARTED,
                reason="killed for memory",
            ),
        ]
        headwater.database.deployments.report_workers({deployment.id: workers})
        response = alice.get(f"{FLOW}/{config_id}/deploy/stats")
        assert response.status_code == 200
        assert (response.json()["lag"], response.json()["last_progress_at"]) == (None, None)
        health: dict[str, Any] = response.json()["workers_health"]
        entries = health.pop("workers")
        assert health == {
            "total_workers": 3,
            "healthy_workers": 1,
            "unhealthy_workers": 2,
            "crashing_workers": 1,
            "oom_killed_workers": 1,
        }
        assert [entry["name"] for entry in entries] == ["w-0", "w-1", "w-2"]
        assert entries[2] == {
            "name": "w-2",
            "status": "OOMKilled",
            "is_ready": False,
            "is_crash_looping": True,
            "is_oom_killed": True,
            "restart_count": 4,
            "start_time": "2026-01-02T03:04:05.123Z",
            "reason": "killed for memory",
        }

    def test_the_progress_is_reported(self, headwater: Installation, alice: User, config_id: str) -> None:
        alice.post(f"{FLOW}/{config_id}/deploy")
        deployment = headwater.database.deployments.active(config_id)
        assert deployment is not None
        headwater.broker.ensure(DeploymentResources((TopicSpec("stream", 1),), (), ()))
        headwater.broker.commit_start_offsets(f"wrk-{deployment.id}.1", "stream", "latest")
        headwater.broker.append("stream", 0, 0)
        minute = 1767323040
        headwater.metrics.write(deployment.id, "g", "a", MetricsDelta(minute, {0: PartitionCounts(1, {})}, {}))
        stats = alice.get(f"{FLOW}/{config_id}/deploy/stats").json()
        assert (stats["lag"], stats["last_progress_at"]) == (1, "2026-01-02T03:04:00.000Z")

    def test_reader_threads_end_with_the_app(self) -> None:
        before = set(threading.enumerate())
        with installation() as headwater:
            user = headwater.user("alice")
            config_id = user.create()["id"]
            user.post(f"{FLOW}/{config_id}/deploy")
            user.get(f"{FLOW}/{config_id}/deploy/stats")
            readers = [each for each in set(threading.enumerate()) - before if each.name.startswith("read ")]
        assert readers
        for thread in readers:
            thread.join(10)
            assert not thread.is_alive()

    def test_stats_while_kafka_and_the_set_store_are_unavailable(
        self, headwater: Installation, alice: User, config_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(_: str) -> None:
            raise RedisUnavailable("Valkey or Redis does not answer.")

        alice.post(f"{FLOW}/{config_id}/deploy")
        headwater.broker.away = True
        monkeypatch.setattr(headwater.metrics, "last_progress", away)
        stats = alice.get(f"{FLOW}/{config_id}/deploy/stats").json()
        assert (stats["lag"], stats["last_progress_at"]) == (None, None)

    def test_other_requests_do_not_wait_while_kafka_hangs(
        self, headwater: Installation, alice: User, config_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answered = threading.Event()

        def hang(_: object) -> dict[str, int]:
            answered.wait(20)
            return {}

        monkeypatch.setattr(deployments, "OPTIONAL_READ_TIMEOUT_S", 0.2)
        alice.post(f"{FLOW}/{config_id}/deploy")
        monkeypatch.setattr(headwater.broker, "lag", hang)
        asked = [alice.start("GET", f"{FLOW}/{config_id}/deploy/stats") for _ in range(100)]
        try:
            assert alice.get(FLOW).status_code == 200
            assert not answered.is_set()
            answers = [response.result(10) for response in asked]
            assert {answer.status_code for answer in answers} == {200}
            assert {answer.json()["lag"] for answer in answers} == {None}
        finally:
            answered.set()

    def test_lag_and_last_progress_are_waited_for_at_the_same_time(
        self, headwater: Installation, alice: User, config_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answered = threading.Event()
        alice.post(f"{FLOW}/{config_id}/deploy")
        monkeypatch.setattr(deployments, "OPTIONAL_READ_TIMEOUT_S", 2.0)
        monkeypatch.setattr(headwater.broker, "lag", lambda _: answered.wait(20) and {})
        monkeypatch.setattr(headwater.metrics, "last_progress", lambda _: answered.wait(20) or None)
        started_at = time.monotonic()
        try:
            stats = alice.get(f"{FLOW}/{config_id}/deploy/stats").json()
            assert time.monotonic() - started_at < 3.9
            assert (stats["lag"], stats["last_progress_at"]) == (None, None)
        finally:
            answered.set()

    def test_reasons_and_logs_do_not_reveal_internal_names(self, portal: BlockingPortal) -> None:
        headwater = Installation(portal)
        hidden = Deployments(
            flows=headwater.database.flows,
            store=headwater.controller,
            now=headwater.clock,
            new_id=new_id,
            new_password=lambda: "secret",
            source_ends=lambda _: dict.fromkeys(range(4), 10),
            redact=redactor(["kafka.internal:9093"]),
        )
        away = "Kafka at kafka.internal:9093 does not answer."
        with headwater.serving(deployments=hidden):
            alice = headwater.user("alice")
            path = f"{FLOW}/{alice.create()['id']}"
            headwater.controller.reasons = [away]
            failed = alice.post(f"{path}/deploy")
            assert failed.status_code == 422
            assert "Kafka at … does not answer." in failed.text
            alice.post(f"{path}/deploy")
            deployment = headwater.database.deployments.active(path.rsplit("/", 1)[1])
            assert deployment is not None
            worker = ObservedWorker(
                name="w", status=ObservedWorkerStatus.RUNNING, is_ready=False, start_time=STARTED, reason=away
            )
            headwater.database.deployments.report_workers({deployment.id: [worker]})
            lines = [LogLine(time=STARTED, worker="w", source=of, message=away) for of in ("worker", "script")]
            headwater.database.deployments.write_logs({deployment.id: lines})
            stats = alice.get(f"{path}/deploy/stats").json()["workers_health"]["workers"]
            assert stats[0]["reason"] == "Kafka at … does not answer."
            shown = {line["source"]: line["message"] for line in alice.get(f"{path}/deploy/logs").json()["lines"]}
            assert shown == {"worker": "Kafka at … does not answer.", "script": away}

    def test_no_worker_is_ready_without_a_controller(self) -> None:
        with installation(has_leader=lambda: False) as headwater:
            alice = headwater.user("alice")
            config_id = alice.create()["id"]
            alice.post(f"{FLOW}/{config_id}/deploy")
            deployment = headwater.database.deployments.active(config_id)
            assert deployment is not None
            worker = ObservedWorker(name="w-0", status=ObservedWorkerStatus.RUNNING, is_ready=True, start_time=STARTED)
            headwater.database.deployments.report_workers({deployment.id: [worker]})
            health = alice.get(f"{FLOW}/{config_id}/deploy/stats").json()["workers_health"]
            assert health["healthy_workers"] == 0
            assert "No controller runs" in health["workers"][0]["reason"]

    def test_not_deployed(self, alice: User, config_id: str) -> None:
        alice.problem(alice.get(f"{FLOW}/{config_id}/deploy/stats"), 404, "not-found")
