"""What the demo feeds, and what it expects to read: computed here in Python, apart from the pipeline."""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import SetupError
from headwater.ingest.files import read_lines
from headwater.ingest.generator import TransferStream

Record = dict[str, Any]

WATCHED_RANKS = range(5, 45)
NEW_RANK = 2
ADDRESS_FIELDS = ("token_address", "address", "coin", "signer")

TRANSFER_SCRIPT = """
function process(transfer) {
  const unit = 10n ** BigInt(transfer.token_decimals);
  const raw = BigInt(transfer.raw_amount);          // exact, also beyond 2^53
  if (raw < unit) return null;                      // less than one token: drop it
  return {
    token: transfer.token_symbol,
    from: transfer.from_address,
    to: transfer.to_address,
    amount: String(raw / unit),
    raw_amount: raw,
    id: transfer.unique_id,
  };
}
""".strip()

FILE_SCRIPT = "function process(record) { return { ...record, passed: true }; }"


@dataclass(frozen=True, slots=True)
class DemoStream:
    """Lines to feed and the pipeline for them. passes(record, watched): what should come out, or None.

    watched are the filter's first values, newcomer the one that is added while it runs.
    """

    chain: str
    entity: str
    lines: list[bytes]
    filter_expr: str
    script: str
    watched: list[str]
    newcomer: str
    passes: Callable[[Record, set[str]], Record | None]
    summary: Callable[[Record], str]

    def expected(self, first_with_newcomer: int) -> tuple[list[str], set[str]]:
        """(results that must come, results that may come too), as canonical JSON.

        Records from `first_with_newcomer` on were sent after the newcomer was added. Earlier ones of the newcomer
        may have been in work just then.
        """
        old, new = set(self.watched), {*self.watched, self.newcomer}
        must, may = [], set()
        for number, line in enumerate(self.lines):
            record = json.loads(line)
            result = self.passes(record, new if number >= first_with_newcomer else old)
            if result is not None:
                must.append(canonical(result))
            elif number < first_with_newcomer and (early := self.passes(record, new)) is not None:
                may.add(canonical(early))
        return must, may


def canonical(record: Record) -> str:
    """One text per value: members sorted."""
    return json.dumps(record, sort_keys=True)


def generated(count: int) -> DemoStream:
    """`count` made-up ERC-20 transfers; the filter watches wallets."""
    stream = TransferStream(seed=7, wallets=20_000)
    return DemoStream(
        chain="base",
        entity="erc20_token_transfer",
        lines=list(itertools.islice(stream.lines(), count)),
        filter_expr="root = [this.from_address, this.to_address]",
        script=TRANSFER_SCRIPT,
        watched=[stream.wallet(rank) for rank in WATCHED_RANKS],
        newcomer=stream.wallet(NEW_RANK),
        passes=_transfer,
        summary=lambda r: f"{r['amount']:>32} {r['token']:<6} {r['from'][:10]}… → {r['to'][:10]}…",
    )


def _transfer(record: Record, watched: set[str]) -> Record | None:
    unit = 10 ** record["token_decimals"]
    if watched.isdisjoint((record["from_address"], record["to_address"])) or record["raw_amount"] < unit:
        return None
    return {
        "token": record["token_symbol"],
        "from": record["from_address"],
        "to": record["to_address"],
        "amount": str(record["raw_amount"] // unit),
        "raw_amount": record["raw_amount"],
        "id": record["unique_id"],
    }


def recorded(path: Path, chain: str, entity: str) -> DemoStream:
    """A file of JSON lines; the filter watches its most frequent addresses (or symbols). Raises SetupError."""
    lines = list(read_lines(path))
    try:
        records = [json.loads(line) for line in lines]
        name = next(field for field in ADDRESS_FIELDS if all(field in record for record in records))
    except (ValueError, TypeError, StopIteration):
        raise SetupError(
            f"{path} is not usable for the demo: it must hold one JSON object a line, each with one of the members "
            f"{', '.join(ADDRESS_FIELDS)}."
        ) from None
    frequent = [str(value).lower() for value, _ in Counter(str(r[name]).lower() for r in records).most_common(9)]

    def passes(record: Record, watched: set[str]) -> Record | None:
        return {**record, "passed": True} if str(record[name]).lower() in watched else None

    return DemoStream(
        chain=chain,
        entity=entity,
        lines=lines,
        filter_expr=f"root = this.{name}",
        script=FILE_SCRIPT,
        watched=frequent[1:],
        newcomer=frequent[0],
        passes=passes,
        summary=lambda r: f"{name} {r[name]}",
    )
