"""Records for the data-plane benchmarks, and the outputs that each pipeline must produce."""

import json
import random
from collections.abc import Callable
from functools import cached_property
from typing import Any

from headwater.model.transforms import TransformConfig
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.transforms.v8 import V8Transform

RECORD_BYTES = 850
DISTINCT = 50_000
MEMBERS = 1_000_000
SHARE_OF_MEMBERS = 0.1
SHARE_OF_BIG_INTEGERS = 0.1
DATASET = "watched"
_SCATTER = 0x9E3779B97F4A7C15F39CC0605CEDC834109F0123

SCRIPT = """
function process(record) {
  record.value = Number(BigInt(record.raw_amount_str)) / 10 ** record.token.decimals;
  delete record._created_at;
  delete record._updated_at;
  return record;
}"""
CONTAINS = f"""
function process(record) {{
  record.watched = flow.contains('{DATASET}', [record.from_address, record.to_address]);
  return record;
}}"""

FILTER = RedisSetFilterTransform(uid="filter", type="redis_set_filter", filter_expr="root = this.to_address")
TRANSFORMS: dict[str, list[TransformConfig]] = {
    "copy": [],
    "script": [V8Transform(uid="script", type="v8", script=SCRIPT)],
    "filter": [FILTER],
    "filter, script": [FILTER, V8Transform(uid="script", type="v8", script=SCRIPT)],
    "contains": [V8Transform(uid="contains", type="v8", script=CONTAINS)],
}


def address(number: int) -> str:
    """Return a random-looking address for a number.

    The addresses of 0 … MEMBERS − 1 are in the sets.
    """
    return f"0x{number * _SCATTER % (1 << 160):040x}"


def members() -> list[str]:
    """Return the values of the filter and of the dataset."""
    return [address(number) for number in range(MEMBERS)]


class Workload:
    """ERC-20 transfers of about 850 bytes.

    Record i of the stream has the value `values[i % DISTINCT]`.
    """

    def __init__(self) -> None:
        draw = random.Random(7)
        self.is_member = [draw.random() < SHARE_OF_MEMBERS for _ in range(DISTINCT)]
        self.records = [_transfer(draw, number, self.is_member[number]) for number in range(DISTINCT)]

    @cached_property
    def values(self) -> list[bytes]:
        """Return the records as JSON."""
        return [json.dumps(record, separators=(",", ":")).encode() for record in self.records]

    def passes(self, work: str) -> Callable[[int], bool]:
        """Return a predicate that says whether a pipeline passes the record with a given number."""
        return self.is_member.__getitem__ if work.startswith("filter") else lambda _: True

    def is_correct(self, work: str, number: int, output: bytes, *, exact: bool = True) -> bool:
        """Return whether `output` is the pipeline's correct output for the record with this number.

        If `exact`, integers keep all digits and a copy keeps its bytes. Otherwise integers beyond 2^53 may be rounded
        to doubles, and a copy may be formatted differently.
        """
        if exact and (work in ("copy", "filter") or work not in TRANSFORMS):
            return output == self.values[number]
        actual: dict[str, Any] = json.loads(output)
        if "value" in actual:
            actual["value"] = float(actual["value"])  # JavaScript prints a large double as an integer
        expected = self._expected(work, number)
        return actual == expected if exact else _rounded(actual) == _rounded(expected)

    def _expected(self, work: str, number: int) -> dict[str, Any]:
        record = self.records[number]
        if work in ("copy", "filter"):
            return record
        if work == "contains":
            return {**record, "watched": self.is_member[number]}
        value = float(int(record["raw_amount_str"])) / 10 ** record["token"]["decimals"]
        kept = {name: field for name, field in record.items() if name not in ("_created_at", "_updated_at")}
        return {**kept, "value": value}


class Tally:
    """Checks and counts outputs that do not carry the position of their source record.

    Their order does not matter.
    """

    def __init__(self, workload: Workload, work: str, *, exact: bool = True) -> None:
        self._workload, self._work, self._exact = workload, work, exact
        self._by_id = {record["unique_id"]: number for number, record in enumerate(workload.records)}
        self._numbers: dict[bytes, int] = {}
        self._counts = [0] * DISTINCT

    def add(self, output: bytes) -> None:
        """Check and count one output."""
        number = self._numbers.get(output)
        if number is None:
            number = self._numbers[output] = self._checked(output)
        self._counts[number] += 1

    def _checked(self, output: bytes) -> int:
        number = self._by_id[json.loads(output)["unique_id"]]
        assert self._workload.is_correct(self._work, number, output, exact=self._exact), output
        return number

    def is_complete(self, times: int) -> bool:
        """Return whether exactly the records that pass were output, each exactly `times` times."""
        passes = self._workload.passes(self._work)
        return self._counts == [times if passes(number) else 0 for number in range(DISTINCT)]


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with integers beyond 2^53 converted to doubles."""
    return {
        name: float(field) if isinstance(field, int) and abs(field) > 1 << 53 else field
        for name, field in record.items()
    }


def _transfer(draw: random.Random, number: int, is_member: bool) -> dict[str, Any]:
    block = 21_000_000 + number // 150
    transaction = f"0x{draw.getrandbits(256):064x}"
    amount = draw.getrandbits(draw.choice((60, 80, 100, 128)))
    beyond = draw.random() < SHARE_OF_BIG_INTEGERS
    record = {
        "token_address": address(MEMBERS + draw.randrange(500)),
        "from_address": address(2 * MEMBERS + draw.randrange(200_000)),
        "to_address": address(draw.randrange(MEMBERS) if is_member else 3 * MEMBERS + draw.randrange(200_000)),
        "raw_amount_str": str(amount),
        "raw_amount": (1 << 60) + draw.getrandbits(90) if beyond else draw.getrandbits(50),
        "usd_amount": round(draw.random() * 10 ** draw.randint(0, 6), 4),
        "block_number": block,
        "block_timestamp": f"2026-11-21T{block // 300 % 24:02d}:{block // 5 % 60:02d}:{block * 12 % 60:02d}Z",
        "block_hash": f"0x{block * _SCATTER % (1 << 256):064x}",
        "transaction_hash": transaction,
        "transaction_index": draw.randint(0, 300),
        "log_index": draw.randint(0, 900),
        "unique_id": f"erc20-{transaction}-{number % 900}",
        "transfer_type": "token_transfer",
        "chain": "base",
        "token": {"name": "Token", "symbol": "TKN", "decimals": draw.choice((6, 8, 18))},
        "_created_at": "2026-11-21T11:00:00.000000",
        "_updated_at": "2026-11-21T11:00:00.000000",
        "pad": "",
    }
    missing = RECORD_BYTES - len(json.dumps(record, separators=(",", ":")))
    return {**record, "pad": "x" * max(0, missing)}
