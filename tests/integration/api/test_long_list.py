"""The API returns a long list of large configurations in bounded memory."""

import tracemalloc
from pathlib import Path
from typing import Any, cast

import httpx2
import msgspec
import pytest
from anyio.from_thread import start_blocking_portal

from headwater.api.app import create_api
from headwater.api.server.limits import ServerLimits
from tests.integration.api.test_server import serving
from tests.support.sql import a_config, a_flow, open_sqlite
from tests.unit.api.installation import FLOW, Installation

COUNT, SCRIPT_BYTES = 1_000, 64_000
MAX_BYTES = 24 << 20


@pytest.mark.long
def test_a_list_of_64_megabytes_needs_little_memory(tmp_path: Path) -> None:
    database = open_sqlite(tmp_path / "headwater.db")
    script = {"uid": "t1", "type": "v8", "script": "/" * SCRIPT_BYTES}
    for number in range(COUNT):
        config = a_config(transforms=[script])
        database.flows.create(a_flow(f"f{number:04}", "alice", created_s=number, pipeline_config=config))
    with start_blocking_portal() as portal:
        headwater = Installation(portal, database=cast("Any", database))
        key = headwater.keys.create("alice")
        with serving(ServerLimits(), create_api(headwater.services())) as server:
            tracemalloc.start()
            try:
                ids, size = _read(f"http://127.0.0.1:{server.port}{FLOW}", key)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    database.close()
    assert size > COUNT * SCRIPT_BYTES
    assert ids == [f"f{number:04}" for number in reversed(range(COUNT))]
    assert peak < MAX_BYTES, f"{peak >> 20} MiB"


def _read(url: str, key: str) -> tuple[list[str], int]:
    """Return the ids in the array's order, and the number of bytes.

    At most one object is in memory.
    """
    ids, size, kept = [], 0, b""
    with httpx2.stream("GET", url, headers={"X-API-Key": key}, timeout=120) as answer:
        assert answer.status_code == 200
        for part in answer.iter_raw():
            size += len(part)
            kept += part
            while (end := kept.find(b'},{"id":"')) > 0:
                ids.append(msgspec.json.decode(kept[1 : end + 1])["id"])
                kept = kept[end + 1 :]
    ids.append(msgspec.json.decode(kept[1:-1])["id"])
    return ids, size
