"""Uploads that make no progress: they do not block other owners."""

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from headwater.api import owner_limiter
from headwater.errors import UploadAborted
from tests.support.waiting import until
from tests.unit.api.installation import FLOW, Installation, User

JSON_TYPE = {"content-type": "application/json"}


class Stalled:
    """Bodies that stop after their first bytes until a test continues them."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._go_on = user.portal.call(anyio.Event)
        self.begun = 0

    def go_on(self) -> None:
        self._user.portal.call(self._go_on.set)

    async def body(self) -> AsyncIterator[bytes]:
        self.begun += 1
        yield b'{"values": ["a"'
        await self._go_on.wait()
        yield b"]}"


@pytest.fixture
def stalled(alice: User) -> Iterator[Stalled]:
    upload = Stalled(alice)
    yield upload
    upload.go_on()


def values_path(user: User) -> str:
    flow = user.create()
    return f"{FLOW}/{flow['id']}/transforms/{flow['pipeline_config']['transforms'][0]['uid']}/filter-values"


def test_uploads_of_one_owner_do_not_delay_others(alice: User, bob: User, stalled: Stalled) -> None:
    path = values_path(alice)
    sent = [
        alice.start("POST", path, content=stalled.body(), headers=JSON_TYPE)
        for _ in range(owner_limiter.MAX_CONCURRENT_UPLOADS + 1)
    ]
    until(lambda: stalled.begun >= owner_limiter.MAX_CONCURRENT_UPLOADS_PER_OWNER)
    assert bob.post(values_path(bob), {"values": ["b"]}).json()["added"] == 1
    assert stalled.begun == owner_limiter.MAX_CONCURRENT_UPLOADS_PER_OWNER
    stalled.go_on()
    assert {answer.result().status_code for answer in sent} == {200}


def test_five_uploads_of_one_owner_run_concurrently(alice: User, stalled: Stalled) -> None:
    path = values_path(alice)
    sent = [alice.start("POST", path, content=stalled.body(), headers=JSON_TYPE) for _ in range(5)]
    until(lambda: stalled.begun >= 5)
    stalled.go_on()
    assert sum(answer.result().json()["added"] for answer in sent) == 1


def test_an_overtaken_upload_reports_it(headwater: Installation, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(*_: object) -> None:
        raise UploadAborted

    path = values_path(alice)
    monkeypatch.setattr(headwater.sets, "replace", replace)
    body = alice.problem(alice.put(path, {"values": ["a"]}), 503, "superseded")
    assert body["detail"].endswith("This upload changed no set. Send the upload again.")
