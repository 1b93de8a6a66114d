"""Reads the price histories of quote tokens from the price store.

The prices worker and the API both do so, and this is the lowest package that knows the store.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from headwater.model.price.archive import ArchivedTicks, ArchiveKey
from headwater.model.price.arrays import Int64Array
from headwater.model.price.band import hour_of
from headwater.model.price.codec import decode_state
from headwater.model.price.quote_history import QuoteHistory, history_buckets, history_of
from headwater.model.price.quoted_state import UnsettledTicks
from headwater.model.price.state import TokenState
from headwater.model.price.tail import decode_tail
from headwater.model.price.tick import key_of_quote_token
from headwater.stores.protocols.prices import PriceStore, StoredToken


class QuoteHistoryReader:
    """Reads the price histories of quote tokens.

    The constructor reads the states. The caller reads the ticks of `archive_keys` and passes them to `histories`, so
    that it can read other archived ticks in the same round trip.
    """

    def __init__(self, store: PriceStore, unsettled: Mapping[bytes, Sequence[UnsettledTicks]], now: int) -> None:
        """Read the states. Raises RedisUnavailable and PriceStateUnreadable.

        Args:
            store: The price store.
            unsettled: The unsettled ticks, by the key of their token or the key of its quoted ticks. Only the chain is
            taken from the key: the key of a quote token is this chain and the `quote` of the ticks.
            now: The present time in ms since the epoch.
        """
        times = _times(unsettled)
        keys = [*times]
        tokens = store.look_up(keys, hour_of(now)) if keys else []
        self._states = {key: _state(token, now) for key, token in zip(keys, tokens, strict=True)}
        self._buckets = {key: history_buckets(state, times[key]) for key, state in self._states.items()}

    @property
    def archive_keys(self) -> list[ArchiveKey]:
        """The keys of the archived ticks that `histories` needs."""
        return [(key, bucket) for key, buckets in self._buckets.items() for bucket in buckets]

    def histories(self, archived: Mapping[ArchiveKey, bytes | None]) -> dict[bytes, QuoteHistory]:
        """Return the histories by quote token.

        Args:
            archived: The stored ticks by archive key; None where nothing is archived.
        """
        return {
            key: history_of(
                state, [ArchivedTicks(bucket, archived[key, bucket] or b"") for bucket in self._buckets[key]]
            )
            for key, state in self._states.items()
        }


def read_histories(
    store: PriceStore, unsettled: Mapping[bytes, Sequence[UnsettledTicks]], now: int
) -> dict[bytes, QuoteHistory]:
    """Read the histories of the quote tokens of unsettled ticks.

    QuoteHistoryReader has the same arguments and errors.
    """
    reader = QuoteHistoryReader(store, unsettled, now)
    keys = reader.archive_keys
    return reader.histories(dict(zip(keys, store.read_archived(keys), strict=True)) if keys else {})


def _times(unsettled: Mapping[bytes, Sequence[UnsettledTicks]]) -> dict[bytes, Int64Array]:
    """Return the times at which a price is needed, by quote token."""
    times: defaultdict[bytes, list[Int64Array]] = defaultdict(list)
    for key, groups in unsettled.items():
        for group in groups:
            times[key_of_quote_token(key, group.quote)].append(group.times)
    return {key: np.concatenate(arrays) for key, arrays in times.items()}


def _state(token: StoredToken, now: int) -> TokenState:
    """Return a token's state with its tail folded into it."""
    state = decode_state(token.state) if token.state else TokenState()
    state.fold_due(now)  # ticks whose time was in the future when they arrived
    state.fold_all(decode_tail(token.tail) if token.tail else (), now)
    return state
