"""Liveness, readiness and metrics, which need no key."""

import threading
from pathlib import Path

import pytest
from prometheus_client import values
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from headwater.api import health
from headwater.api.app import create_api
from headwater.api.prometheus import OPENMETRICS, PrometheusMetrics
from headwater.errors import BrokerUnavailable, SetupError
from headwater.loop_health import LoopHealth
from tests.support.waiting import until
from tests.unit.api.installation import FLOW, Installation, installation


def away() -> None:
    raise BrokerUnavailable("kafka-3.internal:9092 does not answer")


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def fail_polls(headwater: Installation, monkeypatch: pytest.MonkeyPatch) -> LoopHealth:
    """Let the last poll of the watcher fail, and all later ones.

    Returns the health of its loop.
    """
    monkeypatch.setattr(headwater.controller, "progress", lambda _: 1 / 0)
    loop: LoopHealth = headwater.api.state.watcher.poll_health
    loop.on_error(ZeroDivisionError())
    return loop


class TestHealthz:
    def test_answers(self, headwater: Installation) -> None:
        response = headwater.nobody().get("/healthz")
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


class TestReadyz:
    def test_ready(self) -> None:
        with installation(probes={"database": lambda: None, "kafka": lambda: None}) as headwater:
            response = headwater.nobody().get("/readyz")
            assert response.status_code == 200
            assert response.json() == {"status": "ready", "dependencies": {"database": "ok", "kafka": "ok"}}

    def test_unavailable_dependencies_are_named(self) -> None:
        with installation(probes={"database": lambda: None, "kafka": away}) as headwater:
            nobody = headwater.nobody()
            body = nobody.problem(nobody.get("/readyz"), 503, "not-ready")
            assert body["dependencies"] == {"database": "ok", "kafka": "unavailable"}
            assert body["detail"].startswith("Not ready: kafka.")

    def test_the_reason_is_logged_once_until_the_dependency_is_available(self) -> None:
        failures = iter([True, True, False, True])

        def probe() -> None:
            if next(failures):
                away()

        with installation(probes={"kafka": probe}) as headwater, capture_logs() as logs:
            for _ in range(4):
                headwater.nobody().get("/readyz")
        reasons = [(entry["dependency"], entry["event"]) for entry in logs if "dependency" in entry]
        assert reasons == [("kafka", "a dependency is unavailable")] * 2

    def test_an_unexpected_probe_error_means_unavailable(self) -> None:
        with installation(probes={"kafka": lambda: 1 / 0}) as headwater:
            assert headwater.nobody().get("/readyz").status_code == 503
            assert headwater.nobody().get("/readyz").json()["dependencies"] == {"kafka": "unavailable"}

    def test_a_loop_that_fails_is_named_until_it_works(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with installation(probes={"database": lambda: None}) as headwater:
            loop = fail_polls(headwater, monkeypatch)
            body = headwater.nobody().problem(headwater.nobody().get("/readyz"), 503, "not-ready")
            assert body["dependencies"] == {"database": "ok", "watching deployments": "unavailable"}
            assert (
                body["detail"]
                == "Not ready: watching deployments. The log of the API has the reasons. Send the same request again."
            )
            monkeypatch.setattr(headwater.controller, "progress", lambda _: {})
            loop.on_success()
            until(lambda: headwater.nobody().get("/readyz").status_code == 200)

    def test_a_hanging_probe_means_unavailable_and_is_not_repeated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(health, "PROBE_TIMEOUT_S", 0.01)
        free, started = threading.Event(), []

        def hang() -> None:
            started.append(True)
            free.wait()

        probes = {"kafka": hang, "database": lambda: None}
        with installation(probes=probes) as headwater, capture_logs() as logs:
            for _ in range(3):
                body = headwater.nobody().get("/readyz").json()
                assert body["dependencies"]["kafka"] == "unavailable"
            assert len(started) == 1
            assert [entry["reason"] for entry in logs if "dependency" in entry] == [
                "The probe has not ended within 0.01 s."
            ]
            free.set()
            monkeypatch.setattr(health, "PROBE_TIMEOUT_S", 30)
            until(lambda: headwater.nobody().get("/readyz").status_code == 200)

    def test_answers_while_all_threads_are_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        free = threading.Event()
        with installation(probes={"database": lambda: None}) as headwater:
            alice = headwater.user("alice")
            monkeypatch.setattr(headwater.database.flows, "list_positions", lambda *_: free.wait() and [])
            waiting = [alice.start("GET", FLOW) for _ in range(100)]
            for path in ("/healthz", "/readyz", "/metrics"):
                assert alice.get(path).status_code == 200
            assert not any(response.done() for response in waiting)
            free.set()
            assert {response.result().status_code for response in waiting} == {200}


class TestMetrics:
    def test_counts_requests_by_route(self, headwater: Installation) -> None:
        alice = headwater.user("alice")
        for config_id in ("a", "b"):
            alice.get(f"{FLOW}/{config_id}")
        alice.get("/nowhere")
        response = alice.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain")
        seen = samples(response.text)
        labels = {"method": "GET", "route": f"{FLOW}/{{config_id}}", "status": "404"}
        assert seen["headwater_http_requests_total", frozenset(labels.items())] == 2
        labels["route"] = "none"
        assert seen["headwater_http_requests_total", frozenset(labels.items())] == 1
        assert seen["process_resident_memory_bytes", frozenset()] > 0
        assert not any(value in response.text for value in ("alice", alice.key))

    def test_shows_which_dependencies_are_available(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headwater.api.prometheus.CACHE_S", 0)
        with installation(probes={"database": lambda: None, "kafka": lambda: 1 / 0}) as headwater:

            def available() -> dict[str, float]:
                seen = samples(headwater.nobody().get("/metrics").text)
                name = "headwater_dependency_available"
                return {dict(labels)["dependency"]: value for (found, labels), value in seen.items() if found == name}

            assert available() == {"database": 1, "kafka": 0}
            loop = fail_polls(headwater, monkeypatch)
            assert available() == {"database": 1, "kafka": 0, "watching deployments": 0}
            monkeypatch.setattr(headwater.controller, "progress", lambda _: {})
            loop.on_success()
            until(lambda: available() == {"database": 1, "kafka": 0, "watching deployments": 1})

    @pytest.mark.parametrize("version", ["", ";version=1.0.0;escaping=allow-utf-8;q=0.5", ";version=nonsense"])
    def test_speaks_openmetrics_when_asked(self, headwater: Installation, version: str) -> None:
        accept = f"application/openmetrics-text{version},text/plain;version=0.0.4;q=0.2"
        for headers, kind in (({"accept": accept}, "application/openmetrics-text"), ({}, "text/plain")):
            response = headwater.nobody().get("/metrics", headers=headers)
            assert response.headers["content-type"].startswith(kind)
            assert response.text.endswith("# EOF\n") == (kind != "text/plain")
            assert "process_resident_memory_bytes" in response.text

    @pytest.fixture
    def shared(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Act like a process that was started with PROMETHEUS_MULTIPROC_DIR."""
        monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
        monkeypatch.setattr(values, "ValueClass", values.MultiProcessValue())  # type: ignore[no-untyped-call]  # it has no types
        monkeypatch.setattr("prometheus_client.metrics.values.ValueClass", values.ValueClass)
        return tmp_path

    def test_processes_share_a_directory(self, shared: Path) -> None:
        metrics = PrometheusMetrics(shared)
        metrics.record_request("GET", "/x", 200, 0.1)
        for file in list(shared.glob("*.db")):
            kind = file.stem.rpartition("_")[0]
            (shared / f"{kind}_999999999.db").write_bytes(file.read_bytes())
        seen = samples(metrics.exposition()[0].decode())
        labels = frozenset({"method": "GET", "route": "/x", "status": "200"}.items())
        assert seen["headwater_http_requests_total", labels] == 2
        assert metrics.exposition(OPENMETRICS)[0].endswith(b"# EOF\n")
        pids = {dict(labels)["pid"] for name, labels in seen if name == "process_open_fds"}
        assert len(pids) == 1, "the one process that lives"

    def test_a_directory_that_is_created_too_late(self, headwater: Installation, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="PROMETHEUS_MULTIPROC_DIR"):
            create_api(headwater.services(metrics_dir=tmp_path))


class TestLastUse:
    def test_is_written_when_the_api_stops(self) -> None:
        with installation() as headwater:
            alice = headwater.user("alice")
            alice.get(FLOW)
            assert headwater.database.keys.list()[0].last_used_at is None
        assert headwater.database.keys.list()[0].last_used_at == headwater.clock.now.replace(second=0, microsecond=0)
