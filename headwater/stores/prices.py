"""What keeps token prices: stores/redis/prices.py, and its twin in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headwater.model.price.left import Leaving


class StoredToken(NamedTuple):
    """What is stored of a token; None for what is not there.

    Attributes:
        ticks: Those of the hour that was asked for.
        quoted_state, quoted_tail: The same of the token's quoted ticks (model/price/quoted.py).
    """

    state: bytes | None = None
    tail: bytes | None = None
    ticks: bytes | None = None
    quoted_state: bytes | None = None
    quoted_tail: bytes | None = None


@dataclass(frozen=True, slots=True)
class PriceWrite:
    """What a worker writes of a partition: states by token, and ticks that have left a state by token and chunk.

    Attributes:
        end: The position on the ticks topic that all of it reaches.
        tails: What is appended to the tails of other tokens.
        unsettled: Keys that have unsettled ticks from now on.
        settled: Keys that have none any more.
    """

    end: int
    states: Mapping[bytes, bytes]
    left: Mapping[Leaving, bytes]
    tails: Mapping[bytes, bytes]
    unsettled: Collection[bytes] = ()
    settled: Collection[bytes] = ()


class PriceStore(Protocol):
    """Price states (model/price/codec.py) and tails (tail.py) of all tokens, as bytes, by partition of the ticks topic.

    One worker at a time may write a partition. Tokens are keys of the ticks topic; those of quoted ticks have states
    and tails of their own (quoted.py). Times are ms since the epoch.
    """

    def acquire_partitions(self, owner: str, topic_id: str, partitions: Collection[int]) -> Mapping[int, int]:
        """Write these partitions from now on: writes of any earlier owner are refused.

        Returns the positions on this very topic that were reached; a partition of which nothing was written is missing.
        """

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        """The state and the tail of each token."""

    def read_archived(self, leaving: Sequence[Leaving]) -> list[bytes | None]:
        """The ticks of each token and chunk that are stored beside the state."""

    def write(self, partition: int, owner: str, written: PriceWrite) -> Mapping[bytes, int] | None:
        """Replace chunks, then states, whose tails end with that, append to tails, then move the position.

        Returns the bytes of the tails that grew. None when another owner took the partition, or when the store lost
        this one's last write: take it again. Cut off, or refused half-way, it leaves the old position: fold again from
        there. Chunks are written before the states that they have left, so whatever is cut off, no tick is in neither.
        """

    def unsettled(self, partition: int) -> Collection[bytes]:
        """The keys that have unsettled ticks; after a write that was cut off, also some that have none."""

    def note_chains(self, chains: Collection[str]) -> None:
        """Remember the chains of ticks, in lower case."""

    def chains(self) -> Collection[str]:
        """Those that were noted."""

    def look_up(self, tokens: Sequence[bytes], hour: int) -> list[StoredToken]:
        """For readers: all of each token, with its ticks of an hour that have left the state by then.

        tokens: Keys of tokens, not of quoted ticks.
        """
