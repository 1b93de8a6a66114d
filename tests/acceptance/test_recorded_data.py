"""Pipelines on every recorded log file of Base and Polygon have the correct outputs.

The expected outputs are computed independently.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, TopicRecord, deployed, pipeline, reading
from tests.acceptance.recorded import Log, log_files, read_logs

FOLDER = os.environ.get("HEADWATER_TEST_DATA", "")
FILES = [f for f in log_files(Path(FOLDER)) if read_logs(f[1])] if FOLDER and Path(FOLDER).exists() else []
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

SCRIPT = """
const TRANSFER = "TOPIC";
function process(log) {
  const id = log.transaction_hash + ":" + log.log_index;
  if (log.topic0 !== TRANSFER || log.topics.length !== 3) return { kind: "other", address: log.address, id };
  return {
    kind: "transfer",
    token_address: log.address,
    from_address: "0x" + log.topic1.slice(26),
    to_address: "0x" + log.topic2.slice(26),
    raw_amount: BigInt(log.data === "0x" ? 0 : log.data),
    id,
  };
}
""".replace("TOPIC", TRANSFER)


def expected_output(log: Log) -> dict[str, Any]:
    """Return the expected output for a log."""
    identity = f"{log['transaction_hash']}:{log['log_index']}"
    if log["topics"][:1] != [TRANSFER] or len(log["topics"]) != 3:
        return {"kind": "other", "address": log["address"], "id": identity}
    return {
        "kind": "transfer",
        "token_address": log["address"],
        "from_address": "0x" + log["topics"][1][26:],
        "to_address": "0x" + log["topics"][2][26:],
        "raw_amount": 0 if log["data"] == "0x" else int(log["data"], 16),
        "id": identity,
    }


def busiest_half(logs: list[Log]) -> list[str]:
    """Return the addresses that emitted about half of the logs. These are the filter's values."""
    counts = Counter(log["address"] for log in logs).most_common()
    chosen, sum_ = [], 0
    for address, count in counts:
        if sum_ * 2 >= len(logs):
            break
        chosen.append(address)
        sum_ += count
    return chosen


def assert_order_kept(records: list[TopicRecord], position: dict[str, int]) -> None:
    """Assert that the records of each partition are in the order of the file."""
    last: dict[int, int] = {}
    for record in records:
        place = position[record.json()["id"]]
        assert place > last.get(record.partition, -1)
        last[record.partition] = place


def case(file: tuple[str, Path]) -> Any:
    """Return a test case. Only one is fast enough for every run."""
    name = f"{file[0]}-{file[1].name}"
    return pytest.param(*file, id=name, marks=[] if name.startswith("base-rotki") else [pytest.mark.slow])


@pytest.mark.skipif(not FILES, reason="HEADWATER_TEST_DATA names no folder with recorded data")
@pytest.mark.parametrize(("chain", "path"), [case(file) for file in FILES])
def test_the_output_has_exactly_the_expected_records(
    chain: str, path: Path, installation: Installation, client: httpx2.Client
) -> None:
    logs = read_logs(path)
    watched = busiest_half(logs)
    transforms = [
        {"type": "redis_set_filter", "filter_expr": "root = this.token_address | this.address", "set_values": watched},
        {"type": "v8", "script": SCRIPT},
    ]
    expected = [expected_output(log) for log in logs if log["address"] in watched]
    ends = [{"address": watched[0], "topics": [], "transaction_hash": f"end{n}", "log_index": 0} for n in range(16)]
    with (
        deployed(client, pipeline("log", chain, transforms=transforms)) as deployment,
        reading(deployment.sink) as reader,
    ):
        installation.feed(chain, "log", logs)
        reader.read(len(expected))
        installation.feed(chain, "log", ends)  # end markers for all partitions, after the records
        records = reader.read(len(expected) + len(ends))
    ended = [record for record in records if record.json()["id"].startswith("end")]
    assert {record.partition for record in ended} == {record.partition for record in records}
    produced = [record for record in records if record not in ended]
    assert sorted(json.dumps(record.json()) for record in produced) == sorted(map(json.dumps, expected))
    position = {f"{log['transaction_hash']}:{log['log_index']}": place for place, log in enumerate(logs)}
    assert_order_kept(produced, position)
