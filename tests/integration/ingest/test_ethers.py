"""Compares the decoding of logs with ethers, on generated events of all types.

Half of the logs are damaged.

Only the DIFFERENCES are allowed. A log that ethers rejects for one of these reasons is decoded by ethers again with
types that it accepts (decode_with_ethers.js), and the results must be equal.
"""

import json
import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from eth_abi.abi import encode

from headwater.app.abis import import_abis, load_abis
from headwater.ingest.evm.abi import Abis, event_of_fragment, fragment_of_event
from headwater.ingest.evm.blocks import Log
from headwater.ingest.evm.decode import Decoder
from headwater.settings import Settings
from tests.support import node_packages
from tests.unit.ingest.evm.recorded import FOLDER, blocks_of, needs_recorded

pytestmark = pytest.mark.long

LOGS: Final = 5_000
SEED: Final = 20_260_101
PROGRAM: Final = Path(__file__).with_name("decode_with_ethers.js")
PACKAGES: Final = Path(node_packages.__file__).with_name("ethers")
WITHIN_S: Final = 240.0
MAX_INDEXED: Final = 3
CHAINS: Final = ("base", "polygon", "ethereum", "optimism")

DIFFERENCES: Final = {
    "address": "An address has bits above its 20 bytes: ethers refuses it, the low 20 bytes count here.",
    "text": "A text is no UTF-8: ethers refuses it, U+FFFD replaces the bad bytes here.",
    "bool": "The low byte of a bool is 0 and a higher one is not: ethers reads true, the low byte counts here.",
    "size": "Offsets point to the same bytes: ethers reads 1,024 times the data, 32 times are read here.",
    "type": "ethers has no fixed-point numbers and no `function`.",
}
ERRORS: Final = {
    "NUMERIC_FAULT: value exceeds width": "address",
    "INVALID_ARGUMENT: invalid codepoint": "text",
    "UNSUPPORTED_TYPE": "type",
}
"""The beginnings of ethers' error messages, and the corresponding differences."""

Random = random.Random
Entry = dict[str, Any]


def word(value: int) -> bytes:
    return (value % 2**256).to_bytes(32, "big")


# Events.


def some_event(rng: Random) -> Entry:
    inputs = [some_input(rng, place) for place in range(rng.randint(0, 6))]
    for entry in rng.sample(inputs, min(len(inputs), rng.randint(0, MAX_INDEXED))):
        entry["indexed"] = True
    return {"type": "event", "name": "Paid", "inputs": inputs}


def some_input(rng: Random, place: int, depth: int = 0) -> Entry:
    names = [f"p{place}", f"p{place}", f"p{place}", "", "same", "arg1"]
    kind = rng.choices(["word", "bytes", "string", "array", "tuple"], [9, 2, 2, 4 - depth, 2 - depth])[0]
    entry: Entry = {"name": rng.choice(names), "type": some_word_type(rng) if kind == "word" else kind}
    if not depth:
        entry["indexed"] = False
    if kind == "array":
        entry |= some_input(rng, place, depth + 1)
        entry["type"] += rng.choice(["[]", "[]", f"[{rng.randint(1, 3)}]"])
    elif kind == "tuple":
        entry["components"] = [some_input(rng, number, depth + 1) for number in range(rng.randint(1, 3))]
    return entry


def some_word_type(rng: Random) -> str:
    size = 8 * rng.randint(1, 32)
    kinds = ["address", "address", "bool", f"uint{size}", "uint256", f"int{size}", f"bytes{size // 8}"]
    return rng.choice(kinds) if rng.random() > 0.002 else rng.choice(["function", f"fixed{size}x18"])


def type_of(entry: Entry) -> str:
    """Return the type with tuples in parentheses, and with `bytes` for `string`.

    Any bytes can then be encoded.
    """
    base, bracket, rest = entry["type"].partition("[")
    if base == "tuple":
        base = f"({','.join(map(type_of, entry['components']))})"
    return f"{'bytes' if base == 'string' else base}{bracket}{rest}"


# Values and logs.


def some_value(rng: Random, entry: Entry) -> Any:
    kind = entry["type"]
    if kind.endswith("]"):
        item, _, count = kind[:-1].rpartition("[")
        return [some_value(rng, entry | {"type": item}) for _ in range(int(count or rng.randint(0, 4)))]
    if kind == "tuple":
        return tuple(some_value(rng, component) for component in entry["components"])
    if kind == "string":
        return some_text(rng)
    if kind == "bytes":
        return rng.randbytes(rng.choice([0, 1, 31, 32, 33, rng.randint(0, 200)]))
    return some_word(rng, kind)


def some_text(rng: Random) -> bytes:
    if rng.random() < 0.02:
        return rng.randbytes(rng.randint(1, 40))
    signs = [*'abc \0\n"\\', "é", "\ufeff", "漢", "🪙"]
    return "".join(rng.choices(signs, k=rng.randint(0, 30))).encode()


def some_word(rng: Random, kind: str) -> Any:
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "address":
        return rng.randbytes(20)
    if kind == "function":
        return rng.randbytes(24)
    if kind.startswith("fixed"):
        return 0
    size = int("".join(filter(str.isdigit, kind)))
    if kind.startswith("bytes"):
        return rng.randbytes(size)
    number = rng.choice([0, 1, 2**size - 1, rng.getrandbits(size), rng.getrandbits(size // 2)])
    return number - 2 ** (size - 1) if kind.startswith("int") else number


def encoded(inputs: Sequence[Entry], values: Sequence[Any]) -> bytes:
    return encode([type_of(entry) for entry in inputs], values)


def some_topic(rng: Random, entry: Entry) -> bytes:
    if entry["type"] in ("string", "bytes", "tuple") or entry["type"].endswith("]"):
        return rng.randbytes(32)
    clean = encoded([entry], [some_value(rng, entry)])
    return clean if rng.random() > 0.05 else dirtied(rng, clean, 0)


# Damage.


def dirtied(rng: Random, data: bytes, place: int) -> bytes:
    """Change bits of one word, mostly bits that its type does not use."""
    at = place + rng.choice([*range(12), *range(32)])
    return data[:at] + rng.randbytes(1) + data[at + 1 :]


def some_place(rng: Random, data: bytes) -> int:
    return 32 * rng.randrange(max(1, len(data) // 32))


def replaced(rng: Random, data: bytes, value: int) -> bytes:
    place = some_place(rng, data)
    return data[:place] + word(value) + data[place + 32 :]


Damage = Callable[[Random, bytes], bytes]
DAMAGES: Final[list[Damage]] = [
    lambda rng, data: data[: rng.randint(0, len(data))],
    lambda rng, data: data[: len(data) - 32 * rng.randint(0, 2)],
    lambda rng, data: data.rstrip(b"\0"),
    lambda rng, data: data[: len(data) - rng.randint(0, 31)],
    lambda rng, data: data + rng.randbytes(rng.randint(1, 80)),
    lambda rng, data: dirtied(rng, data, some_place(rng, data)) if data else data,
    lambda rng, data: dirtied(rng, data, some_place(rng, data)) if data else data,
    lambda rng, data: replaced(rng, data, 32 * rng.randint(0, 12)),
    lambda rng, data: replaced(rng, data, rng.randint(0, 400)),
    lambda rng, data: replaced(rng, data, rng.choice([2**31, 2**53, 2**63, 2**64, 2**255, 2**256 - 1])),
    lambda rng, data: data[32 * rng.randint(0, 2) :],
    lambda rng, data: rng.randbytes(len(data)),
]


def some_log(rng: Random) -> tuple[Entry, list[bytes], bytes]:
    """Return an event, the topics of a log after the first one, and its data."""
    if rng.random() < 0.06:
        return aliased(rng)
    if rng.random() < 0.06:
        return scattered(rng)
    event = some_event(rng)
    indexed = [entry for entry in event["inputs"] if entry["indexed"]]
    rest = [entry for entry in event["inputs"] if not entry["indexed"]]
    data = encoded(rest, [some_value(rng, entry) for entry in rest])
    for _ in range(rng.choice([0, 1, 1, 2])):
        data = rng.choice(DAMAGES)(rng, data)
    return event, [some_topic(rng, entry) for entry in indexed], data


def scattered(rng: Random) -> tuple[Entry, list[bytes], bytes]:
    """Encode parameters of variable length at random offsets, with garbage between them."""
    inputs: list[Entry] = [
        {"name": f"p{place}", "type": rng.choice(["bytes", "string", "uint256[]", "string[]", "bool[2][]"]),
         "indexed": False} for place in range(rng.randint(1, 4))
    ]  # fmt: skip
    tail = b""
    for entry in rng.sample(inputs, len(inputs)):
        tail += rng.randbytes(rng.randint(0, 40))
        entry["at"] = len(inputs) * 32 + len(tail)
        tail += encoded([entry], [some_value(rng, entry)])[32:]
    head = b"".join(word(entry.pop("at")) for entry in inputs)
    return {"type": "event", "name": "Paid", "inputs": inputs}, [], head + tail


def aliased(rng: Random) -> tuple[Entry, list[bytes], bytes]:
    """Encode an array whose offsets all point to the same bytes."""
    count, size = rng.randint(1, 60), rng.randint(0, 3_000)
    data = word(32) + word(count) + word(32 * count) * count + word(size) + b"a" * size
    inputs = [{"name": "same", "type": rng.choice(["bytes[]", "string[]"]), "indexed": False}]
    return {"type": "event", "name": "Paid", "inputs": inputs}, [], data


# The comparison.


def by_headwater(fragment: Entry, topics: list[str], data: str) -> list[Any] | None:
    event = event_of_fragment(fragment)
    assert event is not None
    log = Log("0x" + "ab" * 20, [event.topic0, *topics[1:]], data, "0x", "0x1", "0x", "0x0", "0x0")
    found = Decoder(Abis([event], {})).decode(log)
    assert found is None or list(found.params) == found.names
    return None if found is None else as_lists(list(found.params.values()))


def as_lists(value: Any) -> Any:
    """Convert tuples to lists of their members, without names."""
    if isinstance(value, dict):
        value = list(value.values())
    return [as_lists(each) for each in value] if isinstance(value, list) else value


def by_ethers(logs: Sequence[Entry]) -> list[Entry]:
    packages = node_packages.installed("ethers", PACKAGES) / "node_modules"
    done = subprocess.run(
        [node_packages.node(), str(PROGRAM)], env=os.environ | {"NODE_PATH": str(packages)}, check=False,
        input="\n".join(map(json.dumps, logs)).encode(), capture_output=True, timeout=WITHIN_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.split(b"\n") if line]


def difference(log: Entry, ours: list[Any] | None, theirs: Entry) -> str:
    """Return the name of the difference.

    It is empty if there is none, and `?` for an unknown difference.
    """
    strict, loose = theirs["strict"].get("values"), theirs["loose"].get("values")
    if ours == strict:
        return ""
    reason = next((name for start, name in ERRORS.items() if theirs["strict"].get("error", "").startswith(start)), "")
    if reason == "type":
        return reason if re.search("fixed|function", json.dumps(log["fragment"])) else "?"
    if ours != loose:
        return "?"
    if ours is None:
        return "size" if "exceeds inflation ratio of 32" in theirs["loose"]["error"] else "?"
    return reason or ("bool" if strict == with_low_bytes_true(ours, strict) else "?")


def with_low_bytes_true(ours: Any, strict: Any) -> Any:
    """Return our values with true in place of false where ethers has true."""
    if isinstance(ours, list) and isinstance(strict, list) and len(ours) == len(strict):
        return [with_low_bytes_true(own, other) for own, other in zip(ours, strict, strict=True)]
    return strict if (ours, strict) == ("false", "true") else ours


def differences(logs: Sequence[Entry], ours: Sequence[list[Any] | None]) -> Counter[str]:
    """Count the known differences. Fail the test on any other difference."""
    theirs = by_ethers(logs)
    assert len(theirs) == len(logs)
    found = Counter[str]()
    for log, own, other in zip(logs, ours, theirs, strict=True):
        name = difference(log, own, other)
        found[name] += 1
        assert name in ("", *DIFFERENCES), f"{json.dumps(log)}\nours: {own}\nethers: {other}"
    equal = found.pop("", 0)
    print(f"{equal} of {len(logs)} logs equal, {ours.count(None)} refused; stated differences: {dict(found)}")
    return found


def test_logs_are_decoded_as_ethers_decodes_them() -> None:
    rng = random.Random(SEED)
    logs: list[Entry] = []
    for _ in range(LOGS):
        fragment, topics, data = some_log(rng)
        hexes = ["0x" + "0" * 64, *(f"0x{topic.hex()}" for topic in topics)]
        logs.append({"fragment": fragment, "topics": hexes, "data": f"0x{data.hex()}"})
    ours = [by_headwater(**log) for log in logs]
    assert set(differences(logs, ours)) == set(DIFFERENCES), "each stated difference was met"
    assert LOGS / 2 < LOGS - ours.count(None) < LOGS, "most logs are decoded, and some are refused"


@needs_recorded
def test_recorded_logs_are_decoded_as_ethers_decodes_them(tmp_path: Path) -> None:
    settings, folder = Settings(data_dir=tmp_path), FOLDER / "abi"
    names = ["event_abis.jsonl.gz", "polygon_system_events.json"]
    import_abis(settings, [*(folder / name for name in names), *sorted(folder.glob("*.abi.json"))])
    abis = load_abis(settings)
    logs: list[Entry] = [
        {"fragment": fragment_of_event(event), "topics": log.topics, "data": log.data}
        for chain in CHAINS
        for block in blocks_of(chain)
        for log in block.logs
        for event in (abis.candidates(log.address, log.topics[0], len(log.topics))[:1] if log.topics else ())
    ]
    assert len(logs) > 16_000
    assert not differences(logs, [by_headwater(**log) for log in logs])
