"""The protocol of the store that counts live tails.

A live tail is an open HTTP response that sends new records (docs/watch.md). The tail of a token, in
model/price/tail.py, is something else.
"""

from collections.abc import Collection, Mapping
from typing import Literal, Protocol

SLOT_TTL_S = 30.0
"""A slot that is not renewed for this long is free again, so a killed process blocks its slots no longer than this."""

TailLimit = Literal["total", "owner"]
"""The limit that a new tail would exceed."""


class TailSlots(Protocol):
    """The slots of open live tails, which all processes of the API share.

    All methods raise RedisUnavailable.
    """

    def acquire(self, owner: str, ids: Collection[str], *, total: int, per_owner: int) -> TailLimit | None:
        """Take one slot for each new tail of an owner, or none.

        Args:
            owner: The owner.
            ids: The ids of the new tails. An id contains no colon.
            total: How many tails all owners may have together.
            per_owner: How many tails the owner may have.

        Returns None when this call has taken a slot for each new tail. Otherwise it takes none, and returns the limit
        that leaves too few slots.
        """

    def renew(self, owners: Mapping[str, str]) -> None:
        """Keep the slots of open tails for another SLOT_TTL_S.

        `owners` has the owner of each tail, by id.
        """

    def release(self, owners: Mapping[str, str]) -> None:
        """Free the slots of tails. Unknown ids are ignored."""
