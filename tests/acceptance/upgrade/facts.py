"""Describes what the data directory of an older Headwater must contain."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

FACTS = "facts.json"


@dataclass
class Pipeline:
    """A deployed pipeline.

    Attributes:
        configuration: The response to its creation.
        sink: The Kafka sink in the response to its deployment; empty when it has none.
    """

    configuration: dict[str, Any]
    sink: dict[str, Any]


@dataclass
class Facts:
    """Responses of an older Headwater, and records that it was sent.

    Attributes:
        tokens: The values of the filter of the pipeline "filtered".
        entries: The values of the dataset "watched".
        draft: A configuration that was never deployed. Its filter has the first three tokens.
        torn_down: The id of a configuration that was deployed and torn down.
        pipelines: The deployed pipelines by name.
        other_owner_key: The API key of the owner "acme".
        priced: The records with prices, one for each of 20 tokens.
        records: How many transfers the stream has; their `n` is 0 and up.
    """

    tokens: list[str]
    entries: list[str]
    dataset_id: str
    draft: dict[str, Any]
    torn_down: str
    pipelines: dict[str, Pipeline]
    other_owner_key: str
    priced: list[dict[str, Any]] = field(default_factory=list)
    records: int = 0

    def transfer(self, n: int) -> dict[str, Any]:
        """Return the transfer with a number.

        Transfers with an odd number have a token of the filter, and every fourth one, from 1 on, an address in the
        dataset.
        """
        return {
            "n": n,
            "token_address": self.tokens[n % len(self.tokens)] if n % 2 else "0x0",
            "from_address": self.entries[n % len(self.entries)] if n % 4 == 1 else "0x0",
            "transaction_hash": f"0x{n:064x}",
            "log_index": 0,
        }

    def to_json(self) -> str:
        """Return the text of the file."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, data_dir: Path) -> "Facts":
        """Read the file in a data directory."""
        return msgspec.json.decode((data_dir / FACTS).read_bytes(), type=cls)
