"""Dead letters: GET /api/v1/flow/{config_id}/dead-letters."""

import base64
from typing import Any

import pytest

from headwater.model.dead_letter import (
    ATTEMPTS_HEADER,
    COLUMN_HEADER,
    ERROR_HEADER,
    LINE_HEADER,
    MESSAGE_HEADER,
    TRANSFORM_HEADER,
)
from headwater.model.deployment import dead_letter_topic
from headwater.model.outputs import CONFIG_HEADER, SOURCE_HEADER
from headwater.services import dead_letters
from tests.unit.api.installation import FLOW, Installation, User

TIME_MS = 1_767_323_045_678


class Scene:
    """A deployed configuration with dead letters."""

    def __init__(self, headwater: Installation, user: User) -> None:
        self.headwater = headwater
        self.user = user
        self.id = str(user.create()["id"])
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
            CONFIG_HEADER: "4",
            SOURCE_HEADER: f"stream.base.log/{partition}/{self._count}/0",
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
