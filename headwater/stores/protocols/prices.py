"""The protocol of the store of token prices.

A tick is one price of a token. A quoted tick has its price in units of another token, the quote token. It is unsettled
until its price is converted to USD some minutes later, because late ticks of the quote token still change the
conversion; then it is settled, and its USD price is final. Other ticks have their price in USD.

A state holds the prices of a token in encoded form (model/price/codec.py). Its tail holds the ticks that arrived since
the state was encoded (model/price/tail.py); a reader folds the tail into the state. Ticks that are too old for the
state are archived by token and time bucket, which is an hour or a minute (model/price/archive.py).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Protocol

from headwater.model.price.archive import ArchiveKey


class StoredToken(NamedTuple):
    """The stored data of one token. A field is None when the store has no such entry.

    Attributes:
        state: The encoded price state (model/price/codec.py).
        tail: The ticks that are not part of the state yet (model/price/tail.py).
        ticks: The ticks that are archived for the whole requested hour. When the state divides this hour into minutes,
            other ticks of the hour are archived by minute, and `read_archived` reads them.
        quoted_state: The encoded state of the token's quoted ticks (model/price/quoted_state.py).
        quoted_tail: The quoted ticks that are not part of `quoted_state` yet (see QuotedState.decode).
    """

    state: bytes | None = None
    tail: bytes | None = None
    ticks: bytes | None = None
    quoted_state: bytes | None = None
    quoted_tail: bytes | None = None

    @property
    def encoded_ticks(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The state, the tail and the archived ticks of the token's USD ticks."""
        return self.state, self.tail, self.ticks


LIST_PERIOD_S = 30 * 86_400
"""Tokens are listed by the period of this length in which they have ticks, so that inactive tokens leave the list."""


@dataclass(frozen=True, slots=True)
class PriceWrite:
    """One write of a worker to a partition.

    Attributes:
        end: The offset on the ticks topic up to which this write includes all ticks.
        states: New states by token. A new state includes the token's tail, which is deleted.
        archived: Archived ticks by token and time bucket.
        tails: By token, the bytes to append to the tail.
        unsettled: The keys to add to the partition's set of keys with unsettled ticks.
        settled: The keys to remove from this set.
    """

    end: int
    states: Mapping[bytes, bytes]
    archived: Mapping[ArchiveKey, bytes]
    tails: Mapping[bytes, bytes]
    _: KW_ONLY
    unsettled: Collection[bytes] = ()
    settled: Collection[bytes] = ()


class PriceStore(Protocol):
    """The price states and tails of all tokens, as bytes, by partition of the ticks topic.

    One worker at a time may write a partition. Tokens are named by their keys on the ticks topic; the quoted ticks of
    a token have a key, a state and a tail of their own (model/price/quoted_state.py). Times are ms since the epoch.
    """

    def acquire_partitions(self, writer: str, topic_id: str, partitions: Collection[int]) -> Mapping[int, int]:
        """Make `writer` the only writer of these partitions.

        Later writes of earlier writers are rejected. Return by partition the offset up to which the store includes the
        ticks of this topic. A partition is left out when the store has nothing of it for this `topic_id`.
        """

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        """Return the state and the tail of each token."""

    def read_archived(self, archive_keys: Sequence[ArchiveKey]) -> list[bytes | None]:
        """Return the archived ticks of each token and time bucket."""

    def write(self, partition: int, writer: str, written: PriceWrite) -> Mapping[bytes, int] | None:
        """Write all parts in a fixed order.

        The order is: archived ticks, `unsettled`, states, tails, `settled`, and then the offset `end`.

        Return the new sizes in bytes of the tails that were appended to. Return None when another writer has acquired
        the partition, or when the store lost the last write of this writer; then acquire the partition again.

        When a write is interrupted, the old offset stays, and the ticks must be folded again from there. Archived ticks
        are written before the states from which they were removed. So each tick is always in the archive or in a state.
        """

    def unsettled(self, partition: int) -> Collection[bytes]:
        """Return the keys that have unsettled ticks.

        After an interrupted write, some of the returned keys may have no unsettled ticks.
        """

    def add_chains(self, chains: Collection[str]) -> None:
        """Add chains, of which ticks were written. The names are in lower case."""

    def chains(self) -> Collection[str]:
        """Return the chains that were added."""

    def add_tokens(self, tokens: Collection[bytes], period: int) -> None:
        """Add tokens to the list of a period. The list is kept until the end of the next period.

        Args:
            tokens: The keys of the tokens.
            period: The number of the period since the epoch; see LIST_PERIOD_S.
        """

    def tokens_after(self, after: bytes, prefix: bytes, count: int, period: int) -> list[bytes]:
        """Return the next `count` listed tokens after a token, sorted.

        They begin with `prefix`, and are greater than `after`. The tokens of this period and of the previous period
        are listed.
        """

    def look_up(self, tokens: Sequence[bytes], hour: int) -> list[StoredToken]:
        """Return the stored data of each token.

        Args:
            tokens: Keys of tokens, not of quoted ticks.
            hour: The start of the hour of `StoredToken.ticks`.
        """
