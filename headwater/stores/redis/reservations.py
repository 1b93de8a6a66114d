"""Quota reservations in Valkey or Redis: one hash, which maps ids to reservations in JSON."""

from collections.abc import Collection, Sequence

import msgspec

from headwater.model.quota import Reservation
from headwater.stores.redis.client import Client

KEY = "headwater:reservations"
_decode = msgspec.json.Decoder(Reservation).decode


class RedisReservations:
    """Reservations on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put(self, reservation: Reservation) -> None:
        """See Reservations."""
        self._client.call("HSET", KEY, reservation.id, msgspec.json.encode(reservation))

    def all(self) -> Sequence[Reservation]:
        """See Reservations."""
        return [_decode(stored) for stored in self._client.call("HVALS", KEY)]

    def remove(self, ids: Collection[str]) -> None:
        """See Reservations."""
        if ids:
            self._client.call("HDEL", KEY, *ids)
