"""Dead letters: GET /api/v1/flow/{config_id}/dead-letters."""

import base64
from threading import Event, Semaphore
from typing import Any

import pytest

from headwater.api.owner_limiter import MAX_CONCURRENT_RECORD_READS_PER_OWNER
from headwater.model.audit import AuditQuery
from headwater.model.dead_letter import (
    ATTEMPTS_HEADER,
    COLUMN_HEADER,
    ERROR_HEADER,
    LINE_HEADER,
    MESSAGE_HEADER,
    TRANSFORM_HEADER,
    LetterId,
    LetterKind,
    letter_total_name,
)
from headwater.model.deployment import dead_letter_topic
from headwater.model.metric import MAX_LETTER_TOTALS, MetricsDelta, PartitionCounts
from headwater.model.outputs import OUTPUT_ID_HEADER, REVISION_HEADER
from headwater.model.redrive import (
    MAX_OPEN_REDRIVES,
    LetterOutcomes,
    LetterRange,
    Redrive,
    RedriveCounts,
    RedriveSelection,
)
from headwater.services import dead_letters, redrives
from tests.unit.api.installation import FLOW, Installation, User

TIME_MS = 1_767_323_045_678


class Scene:
    """A deployed configuration with dead letters."""

    def __init__(self, headwater: Installation, user: User) -> None:
        self.headwater = headwater
        self.user = user
        sinks = [{"type": "kafka", "name": name} for name in ("script", "other")]
        self.id = str(user.create(sinks=sinks)["id"])
        user.post(f"{FLOW}/{self.id}/deploy")
        self.topic = dead_letter_topic(self.id)
        self.history = headwater.history
        self.history.create(self.topic, 2)
        self._count = 0

    def fail(self, value: bytes | None = b'{"a":1}', partition: int = 0, **headers: str | None) -> None:
        """Append a dead letter; each is a second later than the one before."""
        letter = {
            ERROR_HEADER: "TypeError",
            MESSAGE_HEADER: "x is undefined",
            TRANSFORM_HEADER: "script",
            LINE_HEADER: "3",
            COLUMN_HEADER: "9",
            ATTEMPTS_HEADER: "1",
            REVISION_HEADER: "4",
            OUTPUT_ID_HEADER: f"stream.base.log/{partition}/{self._count}/0",
        } | {f"headwater-{name}": text for name, text in headers.items()}
        encoded = {name: None if text is None else text.encode() for name, text in letter.items()}
        self.history.append(self.topic, partition, TIME_MS + 1000 * self._count, value, encoded)
        self._count += 1

    def page(self, **query: Any) -> dict[str, Any]:
        response = self.user.get(f"{FLOW}/{self.id}/dead-letters", params=query)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    def ids(self, **query: Any) -> list[str]:
        return [item["id"] for item in self.page(**query)["items"]]


@pytest.fixture
def scene(headwater: Installation, alice: User) -> Scene:
    return Scene(headwater, alice)


class TestList:
    def test_without_letters(self, scene: Scene) -> None:
        assert scene.page() == {"items": [], "cursor": None}

    def test_a_letter(self, scene: Scene) -> None:
        scene.fail(b'{"amount": 12345678901234567890123}', partition=1)
        assert scene.page() == {
            "items": [
                {
                    "id": "1/0",
                    "time": "2026-01-02T03:04:05.678Z",
                    "error": "TypeError",
                    "message": "x is undefined",
                    "transform_uid": "script",
                    "line": 3,
                    "column": 9,
                    "attempts": 1,
                    "revision": 4,
                    "source": "stream.base.log/1/0/0",
                    "record": {"amount": 12345678901234567890123},
                    "redriven": None,
                }
            ],
            "cursor": None,
        }

    def test_a_record_keeps_its_digits(self, scene: Scene) -> None:
        scene.fail(b'{"a": 1.50, "b": 1e400}')
        response = scene.user.get(f"{FLOW}/{scene.id}/dead-letters")
        assert b'"record":{"a": 1.50, "b": 1e400}' in response.content

    @pytest.mark.parametrize("value", [b"{", b"", b"\xff", b"NaN", b'"\xed\xa0\x80"', b"[" * 100_000])
    def test_a_record_that_is_no_json(self, scene: Scene, value: bytes) -> None:
        scene.fail(value)
        (item,) = scene.page()["items"]
        assert "record" not in item
        assert base64.b64decode(item["record_base64"]) == value

    def test_a_tombstone(self, scene: Scene) -> None:
        scene.fail(None, line=None, column=None)
        (item,) = scene.page()["items"]
        assert (item["record"], item["line"], item["column"]) == (None, None, None)

    def test_the_newest_letter_comes_first(self, scene: Scene) -> None:
        for partition in (0, 1, 1, 0, 1):
            scene.fail(partition=partition)
        assert scene.ids() == ["1/2", "0/1", "1/1", "1/0", "0/0"]

    def test_pages(self, scene: Scene) -> None:
        for partition in (0, 1, 1, 0, 1):
            scene.fail(partition=partition)
        first = scene.page(limit=2)
        scene.fail()
        second = scene.page(limit=3, cursor=first["cursor"])
        assert [item["id"] for item in first["items"] + second["items"]] == ["1/2", "0/1", "1/1", "1/0", "0/0"]
        assert second["cursor"] is None

    def test_letters_of_one_error(self, scene: Scene) -> None:
        scene.fail(error="RangeError")
        scene.fail()
        scene.fail(error="RangeError", transform="other")
        assert scene.ids(error="RangeError") == ["0/2", "0/0"]
        assert scene.ids(transform="script") == ["0/1", "0/0"]
        assert scene.ids(error="RangeError", transform="script") == ["0/0"]
        assert scene.ids(error="Error") == []

    def test_an_unknown_transform(self, scene: Scene) -> None:
        response = scene.user.get(f"{FLOW}/{scene.id}/dead-letters", params={"transform": "no-such-uid"})
        assert [*scene.user.faults(response)] == ["/transform"]
        assert 'query parameter "transform"' in response.json()["detail"]
        body = {"transform_uid": "no-such-uid"}
        assert [*scene.user.faults(scene.user.post(f"{FLOW}/{scene.id}/dead-letters/redrive", body))] == [
            "/transform_uid"
        ]

    def test_a_page_may_end_early(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dead_letters, "MAX_SCANNED", 3)
        scene.fail(error="RangeError")
        for _ in range(4):
            scene.fail()
        first = scene.page(error="RangeError")
        assert first["items"] == []
        assert scene.ids(error="RangeError", cursor=first["cursor"]) == ["0/0"]

    def test_large_records_make_short_pages(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dead_letters, "MAX_PAGE_BYTES", 10)
        for _ in range(3):
            scene.fail(b'"12345678"')
        page = scene.page()
        assert [item["id"] for item in page["items"]] == ["0/2"]
        assert scene.ids(cursor=page["cursor"]) == ["0/1"]

    @pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"cursor": "x"}, {"cursor": "1-2_"}, {"page": 1}])
    def test_invalid_parameters(self, scene: Scene, query: dict[str, Any]) -> None:
        (name,) = query
        assert f"/{name}" in scene.user.faults(scene.user.get(f"{FLOW}/{scene.id}/dead-letters", params=query))

    def test_a_topic_that_does_not_exist_yet(self, headwater: Installation, alice: User) -> None:
        config_id = alice.create()["id"]
        alice.post(f"{FLOW}/{config_id}/deploy")
        assert alice.get(f"{FLOW}/{config_id}/dead-letters").json() == {"items": [], "cursor": None}

    def test_not_deployed(self, alice: User) -> None:
        config_id = alice.create()["id"]
        alice.problem(alice.get(f"{FLOW}/{config_id}/dead-letters"), 404, "not-found")

    def test_letters_of_another_owner(self, scene: Scene, bob: User) -> None:
        bob.problem(bob.get(f"{FLOW}/{scene.id}/dead-letters"), 404, "not-found")

    def test_kafka_is_away(self, scene: Scene) -> None:
        scene.history.away = True
        scene.user.problem(scene.user.get(f"{FLOW}/{scene.id}/dead-letters"), 503, "broker-unavailable")

    def test_slow_kafka(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        read = scene.history.read

        def slow(*args: Any, **options: Any) -> Any:
            scene.headwater.clock.forward(dead_letters.TIMEOUT_S + 1)
            return read(*args, **options)

        for _ in range(200):
            scene.fail()
        monkeypatch.setattr(scene.history, "read", slow)
        response = scene.user.get(f"{FLOW}/{scene.id}/dead-letters", params={"error": "none"})
        scene.user.problem(response, 503, "broker-unavailable")

    @pytest.mark.parametrize("path", ["dead-letters", "dead-letters/summary"])
    def test_requests_of_one_owner_do_not_delay_others(
        self, scene: Scene, bob: User, monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        begun, may_go_on = Semaphore(0), Event()
        ranges, total = scene.history.ranges, letter_total_name(LetterKind("TypeError", "script", 3))
        deployment = scene.headwater.database.deployments.active(scene.id)
        assert deployment is not None
        counted = MetricsDelta(1, {0: PartitionCounts(1, {}, {}, {total: 1})}, {})
        scene.headwater.metrics.write(deployment.id, "g", "a", counted)

        def stalled(*arguments: Any) -> Any:
            begun.release()
            may_go_on.wait()
            return ranges(*arguments)

        monkeypatch.setattr(scene.history, "ranges", stalled)
        sent = [scene.user.start("GET", f"{FLOW}/{scene.id}/{path}") for _ in range(45)]
        for _ in range(MAX_CONCURRENT_RECORD_READS_PER_OWNER):
            begun.acquire()
        assert bob.get(FLOW).status_code == 200
        is_limited = not begun.acquire(blocking=False)
        may_go_on.set()
        assert {answer.result().status_code for answer in sent} == {200}
        assert is_limited


class TestSummary:
    def count(self, scene: Scene, **letters: int) -> None:
        """Count letters by the class of their error, as a worker does."""
        names = {letter_total_name(LetterKind(error, "script", 3)): count for error, count in letters.items()}
        deployment = scene.headwater.database.deployments.active(scene.id)
        assert deployment is not None
        self._end = getattr(self, "_end", 0) + 1
        minute = int(scene.headwater.clock.monotonic())
        write = MetricsDelta(minute, {0: PartitionCounts(self._end, {}, {}, names)}, {})
        scene.headwater.metrics.write(deployment.id, "g", "a", write)

    def items(self, scene: Scene) -> list[dict[str, Any]]:
        response = scene.user.get(f"{FLOW}/{scene.id}/dead-letters/summary")
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items

    def test_without_letters(self, scene: Scene) -> None:
        assert self.items(scene) == []

    def test_letters(self, scene: Scene) -> None:
        self.count(scene, TypeError=2, RangeError=1)
        scene.headwater.clock.forward(10)
        self.count(scene, RangeError=4)
        for error in ("TypeError", "RangeError", "TypeError"):
            scene.fail(error=error)
        place = {"transform_uid": "script", "line": 3, "first": "2026-01-02T03:04:05.000Z"}
        assert self.items(scene) == [
            {"error": "RangeError", **place, "count": 5, "last": "2026-01-02T03:04:15.000Z", "example": "0/1"},
            {"error": "TypeError", **place, "count": 2, "last": "2026-01-02T03:04:05.000Z", "example": "0/2"},
        ]

    def test_letters_that_retention_has_removed(self, scene: Scene) -> None:
        self.count(scene, TypeError=2)
        scene.fail()
        scene.history.truncate(scene.topic, 0, 1)
        (item,) = self.items(scene)
        assert (item["count"], item["example"]) == (2, None)

    def test_many_kinds(self, scene: Scene) -> None:
        self.count(scene, **{f"E{number}": 1 for number in range(MAX_LETTER_TOTALS)})
        self.count(scene, x=2, y=3)
        (item,) = [item for item in self.items(scene) if item["error"] == "other"]
        assert (item["transform_uid"], item["line"], item["count"], item["example"]) == ("", None, 5, None)

    def test_the_summary_ends_with_the_deployment(self, scene: Scene) -> None:
        self.count(scene, TypeError=2)
        scene.user.post(f"{FLOW}/{scene.id}/teardown")
        scene.user.problem(scene.user.get(f"{FLOW}/{scene.id}/dead-letters/summary"), 404, "not-found")
        scene.user.post(f"{FLOW}/{scene.id}/deploy")
        assert self.items(scene) == []


class TestRedrive:
    def redrive(self, scene: Scene, **body: Any) -> Any:
        response = scene.user.post(f"{FLOW}/{scene.id}/dead-letters/redrive", body)
        assert response.status_code == (200 if body.get("dry_run") else 202), response.text
        return response.json()

    def read(self, scene: Scene, redrive_id: str) -> dict[str, Any]:
        response = scene.user.get(f"{FLOW}/{scene.id}/redrives/{redrive_id}")
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    def stored(self, scene: Scene, redrive_id: str) -> Redrive:
        redrive = scene.headwater.database.redrives.get(scene.id, redrive_id)
        assert redrive is not None
        return redrive

    def record(self, scene: Scene, outcomes: LetterOutcomes, number: int = 1) -> None:
        deployment = scene.headwater.database.deployments.active(scene.id)
        assert deployment is not None
        scene.headwater.outcomes.record(deployment.id, number, outcomes, TIME_MS // 1000)

    def test_all_letters(self, scene: Scene) -> None:
        for partition in (0, 1, 1):
            scene.fail(partition=partition)
        accepted = self.redrive(scene, all=True)
        assert accepted == {"id": accepted["id"], "requested": 3}
        zero = {"delivered": 0, "dropped": 0, "failed": 0}
        assert self.read(scene, accepted["id"]) == {"state": "running", "requested": 3, **zero}
        stored = self.stored(scene, accepted["id"])
        assert stored.selection == RedriveSelection(ranges={0: LetterRange(0, 1), 1: LetterRange(0, 2)})

    def test_letters_of_one_error(self, scene: Scene) -> None:
        for error in ("TypeError", "RangeError", "TypeError", "TypeError"):
            scene.fail(error=error)
        scene.fail(transform="other")
        assert self.redrive(scene, transform_uid="other", dry_run=True) == {"requested": 1}
        assert self.redrive(scene, error="TypeError", dry_run=True) == {"requested": 4}
        accepted = self.redrive(scene, error="TypeError", transform_uid="script")
        assert accepted["requested"] == 3
        selection = self.stored(scene, accepted["id"]).selection
        assert selection.ranges == {0: LetterRange(0, 4)}
        assert (selection.ids, selection.error, selection.transform_uid) == (None, "TypeError", "script")

    def test_letters_by_id(self, scene: Scene) -> None:
        for partition in (0, 0, 0, 1):
            scene.fail(partition=partition)
        accepted = self.redrive(scene, ids=["0/2", "1/0", "0/1", "0/2"])
        assert accepted["requested"] == 3
        selection = self.stored(scene, accepted["id"]).selection
        assert selection.ranges == {0: LetterRange(1, 3), 1: LetterRange(0, 1)}
        assert selection.ids == ((0, 1), (0, 2), (1, 0))

    def test_stubs_are_left_out(self, scene: Scene) -> None:
        scene.fail()
        scene.fail(stub="record too large for the dead-letter topic")
        assert self.redrive(scene, all=True, dry_run=True) == {"requested": 1}
        response = scene.user.post(f"{FLOW}/{scene.id}/dead-letters/redrive", {"ids": ["0/0", "0/1"]})
        assert "does not contain its record" in scene.user.faults(response)["/ids/1"]

    def test_a_dry_run_changes_nothing(self, scene: Scene) -> None:
        scene.fail()
        assert self.redrive(scene, all=True, dry_run=True) == {"requested": 1}
        assert scene.headwater.database.redrives.list_open() == []

    def test_redriven_letters(self, scene: Scene) -> None:
        for _ in range(3):
            scene.fail()
        accepted = self.redrive(scene, ids=["0/0", "0/2"])
        self.record(scene, {LetterId(0, 0): "delivered", LetterId(0, 2): "failed"})
        state = {"state": "running", "requested": 2, "delivered": 1, "dropped": 0, "failed": 1}
        assert self.read(scene, accepted["id"]) == state
        assert [item["redriven"] for item in scene.page()["items"]] == [
            {"time": "2026-01-02T03:04:05.000Z", "outcome": "failed"},
            None,
            {"time": "2026-01-02T03:04:05.000Z", "outcome": "delivered"},
        ]
        assert self.redrive(scene, all=True, dry_run=True) == {"requested": 1}
        assert self.redrive(scene, ids=["0/0", "0/1"], dry_run=True) == {"requested": 2}

    def test_letters_of_an_open_redrive(self, scene: Scene) -> None:
        for error in ("TypeError", "RangeError", "TypeError", "RangeError"):
            scene.fail(error=error)
        assert self.redrive(scene, ids=["0/0", "0/1"])["requested"] == 2
        assert self.redrive(scene, error="RangeError")["requested"] == 1
        assert self.redrive(scene, all=True, dry_run=True) == {"requested": 1}
        assert self.redrive(scene, all=True)["requested"] == 1
        scene.fail(error="RangeError")
        assert self.redrive(scene, all=True, dry_run=True) == {"requested": 1}
        assert self.redrive(scene, ids=["0/0", "0/3"], dry_run=True) == {"requested": 2}

    def test_the_same_letters_twice(self, scene: Scene) -> None:
        scene.fail()
        assert self.redrive(scene, all=True)["requested"] == 1
        again = self.redrive(scene, all=True)
        assert again["requested"] == 0
        assert self.read(scene, again["id"])["state"] == "done"

    def test_many_partitions_are_read_in_small_chunks(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        scene.history.create(scene.topic, 64)
        for number in range(64):
            scene.history.skip(scene.topic, number, 500)
            scene.fail(partition=number)
        chunks = self.slow_reads(scene, 0, monkeypatch)
        accepted = self.redrive(scene, all=True)
        assert accepted["requested"] == 64
        assert self.stored(scene, accepted["id"]).selection.ranges == dict.fromkeys(range(64), LetterRange(500, 501))
        assert max(chunks) <= redrives.MAX_READ_OFFSETS
        assert sum(chunks) == 64 * 501

    def test_slow_reads_are_small(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        scene.history.skip(scene.topic, 0, 1_500)
        scene.fail()
        chunks = self.slow_reads(scene, 5, monkeypatch)
        assert self.redrive(scene, all=True, dry_run=True) == {"requested": 1}
        assert chunks == [1_000, 500, 1]

    def test_too_many_letters(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        scene.history.skip(scene.topic, 0, 5_000)
        self.slow_reads(scene, 30, monkeypatch)
        assert "Name the letters by `ids`" in self.refuse(scene, all=True)

    def test_letters_that_are_far_apart(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        for _ in range(3):
            scene.fail()
            scene.history.skip(scene.topic, 0, 20_000)
        self.slow_reads(scene, 30, monkeypatch)
        detail = self.refuse(scene, ids=["0/0", "0/20001", "0/40002"])
        assert "Name fewer letters in a request" in detail
        assert "`ids`" not in detail

    def slow_reads(self, scene: Scene, duration_s: float, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Let each read of a topic take a time, and return the numbers of offsets that are read."""
        chunks: list[int] = []
        read = scene.history.read

        def slow(topic: str, ranges: Any, *args: Any, **options: Any) -> Any:
            scene.headwater.clock.forward(duration_s)
            chunks.append(sum(each.end - each.start for each in ranges.values()))
            return read(topic, ranges, *args, **options)

        monkeypatch.setattr(scene.history, "read", slow)
        return chunks

    def refuse(self, scene: Scene, **body: Any) -> str:
        response = scene.user.post(f"{FLOW}/{scene.id}/dead-letters/redrive", body)
        detail: str = scene.user.problem(response, 422, "invalid-input")["detail"]
        return detail

    def test_no_letters(self, scene: Scene) -> None:
        accepted = self.redrive(scene, all=True)
        assert accepted["requested"] == 0
        assert self.read(scene, accepted["id"])["state"] == "done"

    def test_the_end(self, scene: Scene) -> None:
        scene.fail()
        accepted = self.redrive(scene, all=True)
        scene.headwater.database.redrives.finish(
            accepted["id"], "done", RedriveCounts(dropped=1), scene.headwater.clock()
        )
        state = {"state": "done", "requested": 1, "delivered": 0, "dropped": 1, "failed": 0}
        assert self.read(scene, accepted["id"]) == state
        scene.headwater.outcomes.away = True
        assert self.read(scene, accepted["id"]) == state

    @pytest.mark.parametrize(
        ("body", "places"),
        [
            ({}, {""}),
            ({"all": True, "error": "x"}, {""}),
            ({"ids": ["0/0"], "all": True}, {""}),
            ({"dry_run": True}, {""}),
            ({"all": False}, {"/all"}),
            ({"ids": []}, {"/ids"}),
            ({"ids": ["x", "0/0", "0-1"]}, {"/ids/0", "/ids/2"}),
            ({"ids": ["0/0", "0/1", "5/0"]}, {"/ids/1", "/ids/2"}),
            ({"all": True, "dry": True}, {"/dry"}),
            ({"error": "no-such-error"}, {"/error"}),
            ({"error": "x", "transform_uid": "script", "dry_run": True}, {"/error", "/transform_uid"}),
            ({"transform_uid": "no-such-uid"}, {"/transform_uid"}),
        ],
    )
    def test_invalid_requests(self, scene: Scene, body: dict[str, Any], places: set[str]) -> None:
        scene.fail()
        response = scene.user.post(f"{FLOW}/{scene.id}/dead-letters/redrive", body)
        assert scene.user.faults(response).keys() == places
        assert scene.headwater.database.redrives.list_open() == []

    def test_not_deployed(self, alice: User) -> None:
        config_id = alice.create()["id"]
        response = alice.post(f"{FLOW}/{config_id}/dead-letters/redrive", {"all": True})
        assert "draft" in alice.problem(response, 409, "conflict")["detail"]

    def test_redrives_of_another_owner(self, scene: Scene, bob: User) -> None:
        scene.fail()
        accepted = self.redrive(scene, all=True)
        bob.problem(bob.post(f"{FLOW}/{scene.id}/dead-letters/redrive", {"all": True}), 404, "not-found")
        bob.problem(bob.get(f"{FLOW}/{scene.id}/redrives/{accepted['id']}"), 404, "not-found")

    def test_an_unknown_redrive(self, scene: Scene) -> None:
        scene.user.problem(scene.user.get(f"{FLOW}/{scene.id}/redrives/x"), 404, "not-found")

    def test_a_deployment_that_is_replaced_meanwhile(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        scene.fail()
        read = scene.history.read

        def replaced(*args: Any, **options: Any) -> Any:
            for change in ("teardown", "deploy"):
                assert scene.user.post(f"{FLOW}/{scene.id}/{change}").status_code == 200
            return read(*args, **options)

        monkeypatch.setattr(scene.history, "read", replaced)
        response = scene.user.post(f"{FLOW}/{scene.id}/dead-letters/redrive", {"ids": ["0/0"]})
        assert "deployed again" in scene.user.problem(response, 409, "conflict")["detail"]
        assert scene.headwater.database.redrives.list_open() == []

    def test_too_many_redrives(self, scene: Scene) -> None:
        scene.fail()
        for _ in range(MAX_OPEN_REDRIVES):
            self.redrive(scene, ids=["0/0"])
        response = scene.user.post(f"{FLOW}/{scene.id}/dead-letters/redrive", {"ids": ["0/0"]})
        scene.user.problem(response, 409, "conflict")

    def test_the_audit_log(self, scene: Scene) -> None:
        scene.fail()
        accepted = self.redrive(scene, all=True)
        (entry, *_) = scene.headwater.database.audit.read(AuditQuery(object=scene.id))
        assert entry.change.action == "dead_letters.redrive"
        assert f"redrive {accepted['id']} letters 1" in entry.change.after
