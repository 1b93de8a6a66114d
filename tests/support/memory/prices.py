"""In-memory implementation of the price store, for tests. Prices never expire."""

import threading
from collections.abc import Collection, Mapping, Sequence

from headwater.model.price.archive import ArchiveKey, TimeBucket
from headwater.model.price.tick import key_of_quoted_ticks, partition_of
from headwater.stores.protocols.prices import PriceWrite, StoredToken


class MemoryPrices:
    """Implements PriceStore in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writers: dict[int, tuple[str, str]] = {}
        self._positions: dict[int, tuple[str, int]] = {}
        self._position_seen_by_writer: dict[tuple[str, int], tuple[str, int] | None] = {}
        self._states: dict[tuple[int, bytes], bytes] = {}
        self._tails: dict[tuple[int, bytes], bytes] = {}
        self._archived: dict[ArchiveKey, bytes] = {}
        self._unsettled: dict[int, set[bytes]] = {}
        self._chains: set[str] = set()
        self._listed: dict[int, set[bytes]] = {}

    def acquire_partitions(self, writer: str, topic_id: str, partitions: Collection[int]) -> Mapping[int, int]:
        """See PriceStore."""
        with self._lock:
            self._writers.update(dict.fromkeys(partitions, (writer, topic_id)))
            self._position_seen_by_writer.update({(writer, p): self._positions.get(p) for p in partitions})
            ends = {p: self._positions[p] for p in partitions if p in self._positions}
            return {p: end for p, (stored_topic_id, end) in ends.items() if stored_topic_id == topic_id}

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        """See PriceStore."""
        with self._lock:
            return [(self._states.get((partition, token)), self._tails.get((partition, token))) for token in tokens]

    def read_archived(self, archive_keys: Sequence[ArchiveKey]) -> list[bytes | None]:
        """See PriceStore."""
        with self._lock:
            return [self._archived.get(key) for key in archive_keys]

    def write(self, partition: int, writer: str, written: PriceWrite) -> Mapping[bytes, int] | None:
        """See PriceStore."""
        with self._lock:
            writer_and_topic_id = self._writers.get(partition, ("", ""))
            if writer_and_topic_id[0] != writer or self._position_seen_by_writer[
                writer, partition
            ] != self._positions.get(partition):
                return None
            self._archived |= written.archived
            self._unsettled.setdefault(partition, set()).update(written.unsettled)
            for token, state in written.states.items():
                self._states[partition, token] = state
                self._tails.pop((partition, token), None)
            for token, tail in written.tails.items():
                self._tails[partition, token] = self._tails.get((partition, token), b"") + tail
            self._unsettled[partition].difference_update(written.settled)
            self._positions[partition] = self._position_seen_by_writer[writer, partition] = (
                writer_and_topic_id[1],
                written.end,
            )
            return {token: len(self._tails[partition, token]) for token in written.tails}

    def unsettled(self, partition: int) -> Collection[bytes]:
        """See PriceStore."""
        with self._lock:
            return frozenset(self._unsettled.get(partition, ()))

    def add_chains(self, chains: Collection[str]) -> None:
        """See PriceStore."""
        with self._lock:
            self._chains.update(chains)

    def chains(self) -> Collection[str]:
        """See PriceStore."""
        with self._lock:
            return frozenset(self._chains)

    def add_tokens(self, tokens: Collection[bytes], period: int) -> None:
        """See PriceStore."""
        with self._lock:
            self._listed.setdefault(period, set()).update(tokens)

    def tokens_after(self, after: bytes, prefix: bytes, count: int, period: int) -> list[bytes]:
        """See PriceStore."""
        with self._lock:
            listed = self._listed.get(period, set()) | self._listed.get(period - 1, set())
            return sorted(token for token in listed if token.startswith(prefix) and token > after)[:count]

    def look_up(self, tokens: Sequence[bytes], hour: int) -> list[StoredToken]:
        """See PriceStore."""
        stored = [self.read(partition_of(token), [token, key_of_quoted_ticks(token)]) for token in tokens]
        ticks = self.read_archived([(token, TimeBucket(hour)) for token in tokens])
        return [StoredToken(*own, some, *quoted) for (own, quoted), some in zip(stored, ticks, strict=True)]
