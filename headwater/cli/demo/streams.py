"""The records that the demo writes, and the results that it expects.

The expected results are computed without the pipeline.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headwater.cli.demo.transfer_generator import BLOCK_TIME_S, TRANSFERS_PER_BLOCK, TransferGenerator
from headwater.errors import SetupError
from headwater.record_files.record_file import read_lines

Record = dict[str, Any]

WATCHED_WALLET_RANKS = range(5, 25)
"""The ranks of the wallets whose transfers the filter selects, see `TransferGenerator.wallet`."""
ADDED_WALLET_RANK = 2
"""The rank of the wallet that is added to the filter while records flow."""
ADDRESS_FIELDS = ("token_address", "address", "coin", "signer")

TRANSFER_SCRIPT = """
function process(transfer) {
  const unit = 10n ** BigInt(transfer.token_decimals);
  const raw = BigInt(transfer.raw_amount);          // exact, also beyond 2^53
  if (raw < unit) return null;                      // less than one token: drop it
  return {
    amount: String(raw / unit),
    token: transfer.token_symbol,
    from: transfer.from_address,
    to: transfer.to_address,
    raw_amount: raw,
    at: `${transfer.block_number}/${transfer.log_index}`,
  };
}
""".strip()

FILE_SCRIPT = "function process(record) { return { ...record, passed: true }; }"


@dataclass(frozen=True, slots=True)
class DemoStream:
    """Records to write, and the pipeline that filters them.

    Attributes:
        description: A description of the pipeline.
        chain: The chain of the stream.
        entity: The entity of the stream.
        lines: The records, as JSON.
        filter_expr: The expression of the filter.
        script: The script that runs after the filter.
        watched: The initial values of the filter.
        added_value: The value that is added while the pipeline runs.
        expected_output: Returns the expected output of a record for a set of filter values; None when it is dropped.
    """

    description: str
    chain: str
    entity: str
    lines: list[bytes]
    filter_expr: str
    script: str
    watched: list[str]
    added_value: str
    expected_output: Callable[[Record, set[str]], Record | None]

    def expected(self, first_after_change: int) -> tuple[list[str], set[str]]:
        """Return the required results and the optional results, as canonical JSON.

        Records from number `first_after_change` on were sent after the value was added. Earlier records with this value
        may or may not have been processed with it.
        """
        old, new = set(self.watched), {*self.watched, self.added_value}
        required, optional = [], set()
        for number, line in enumerate(self.lines):
            record = json.loads(line)
            result = self.expected_output(record, new if number >= first_after_change else old)
            if result is not None:
                required.append(canonical(result))
            elif number < first_after_change and (early := self.expected_output(record, new)) is not None:
                optional.add(canonical(early))
        return required, optional


def canonical(record: Record) -> str:
    """Return a record as JSON with sorted members, so that equal records have equal texts."""
    return json.dumps(record, sort_keys=True)


def generated(count: int) -> DemoStream:
    """Return a stream of `count` generated ERC-20 transfers until now.

    The filter selects wallets.
    """
    start = datetime.now(UTC) - timedelta(seconds=count / TRANSFERS_PER_BLOCK * BLOCK_TIME_S)
    generator = TransferGenerator(seed=7, wallets=20_000, start=start)
    return DemoStream(
        description="Transfers from or to some wallets, with exact amounts",
        chain="base",
        entity="erc20_token_transfer",
        lines=list(itertools.islice(generator.lines(), count)),
        filter_expr="root = [this.from_address, this.to_address]",
        script=TRANSFER_SCRIPT,
        watched=[generator.wallet(rank) for rank in WATCHED_WALLET_RANKS],
        added_value=generator.wallet(ADDED_WALLET_RANK),
        expected_output=_transfer,
    )


def _transfer(record: Record, watched: set[str]) -> Record | None:
    """Return the output of TRANSFER_SCRIPT; None if the filter or the script drops the record."""
    unit = 10 ** record["token_decimals"]
    if watched.isdisjoint((record["from_address"], record["to_address"])) or record["raw_amount"] < unit:
        return None
    return {
        "amount": str(record["raw_amount"] // unit),
        "token": record["token_symbol"],
        "from": record["from_address"],
        "to": record["to_address"],
        "raw_amount": record["raw_amount"],
        "at": f"{record['block_number']}/{record['log_index']}",
    }


def recorded(path: Path, chain: str, entity: str) -> DemoStream:
    """Return a stream of the records in a file of JSON lines. Raises SetupError.

    The filter selects the most frequent addresses or symbols of the file.
    """
    lines = list(read_lines(path))
    try:
        records = [json.loads(line) for line in lines]
        name = next(field for field in ADDRESS_FIELDS if records and all(field in dict(record) for record in records))
    except (ValueError, TypeError, StopIteration):
        raise SetupError(
            f"{path} is not usable for the demo: it must hold one JSON object a line, each with one of the members "
            f"{', '.join(ADDRESS_FIELDS)}."
        ) from None
    frequent = [str(value).lower() for value, _ in Counter(str(r[name]).lower() for r in records).most_common(9)]

    def expected_output(record: Record, watched: set[str]) -> Record | None:
        return {**record, "passed": True} if str(record[name]).lower() in watched else None

    return DemoStream(
        description=f"Records with some values of {name}",
        chain=chain,
        entity=entity,
        lines=lines,
        filter_expr=f"root = this.{name}",
        script=FILE_SCRIPT,
        watched=frequent[1:],
        added_value=frequent[0],
        expected_output=expected_output,
    )
