"""The price histories of quote tokens, read from the price store."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from headwater.model.price.band import hour_of
from headwater.model.price.codec import decode
from headwater.model.price.left import Leaving, Left
from headwater.model.price.quoted import UnsettledTicks
from headwater.model.price.quotes import Ints, QuoteHistory, history_chunks, history_of
from headwater.model.price.state import TokenState
from headwater.model.price.tail import unpack
from headwater.model.price.tick import quote_key
from headwater.stores.prices import PriceStore, StoredToken


class QuoteReader:
    """Reads the histories of quote tokens in two steps, so that a caller reads other archived ticks with the second.

    unsettled: The ticks that prices are needed for, by the key of their token or of its quoted ticks.
    """

    def __init__(self, store: PriceStore, unsettled: Mapping[bytes, Sequence[UnsettledTicks]], now: int) -> None:
        """Read the states. Raises SetStoreUnavailable, PriceStateUnreadable."""
        times = _times(unsettled)
        keys = [*times]
        found = store.look_up(keys, hour_of(now)) if keys else []
        self._states = {key: _state(one, now) for key, one in zip(keys, found, strict=True)}
        self._chunks = {key: history_chunks(state, times[key]) for key, state in self._states.items()}

    @property
    def archive_keys(self) -> list[Leaving]:
        """What has to be read of the archive."""
        return [(key, chunk) for key, chunks in self._chunks.items() for chunk in chunks]

    def histories(self, archived: Mapping[Leaving, bytes | None]) -> dict[bytes, QuoteHistory]:
        """The histories by quote token. archived: what the archive has of `archive_keys`."""
        return {
            key: history_of(state, [Left(chunk, archived[key, chunk] or b"") for chunk in self._chunks[key]])
            for key, state in self._states.items()
        }


def read_histories(
    store: PriceStore, unsettled: Mapping[bytes, Sequence[UnsettledTicks]], now: int
) -> dict[bytes, QuoteHistory]:
    """The histories that some ticks need, by quote token. Raises SetStoreUnavailable, PriceStateUnreadable."""
    reader = QuoteReader(store, unsettled, now)
    keys = reader.archive_keys
    return reader.histories(dict(zip(keys, store.read_archived(keys), strict=True)) if keys else {})


def _times(unsettled: Mapping[bytes, Sequence[UnsettledTicks]]) -> dict[bytes, Ints]:
    """The times that a price is needed at, by quote token."""
    times: defaultdict[bytes, list[Ints]] = defaultdict(list)
    for key, groups in unsettled.items():
        for group in groups:
            times[quote_key(key, group.quote)].append(group.times)
    return {key: np.concatenate(some) for key, some in times.items()}


def _state(found: StoredToken, now: int) -> TokenState:
    """A token's state with its tail folded into it."""
    state = decode(found.state) if found.state else TokenState()
    state.settle(now)
    state.fold_all(unpack(found.tail) if found.tail else (), now)
    return state
