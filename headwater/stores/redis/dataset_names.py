"""The names of datasets in Valkey or Redis: a hash per owner from names to ids."""

from collections.abc import Sequence

from headwater.stores.redis.client import Client, Script

_DISCARD = Script.load("discard_dataset_name")


class RedisDatasetNames:
    """DatasetNameStore on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put(self, owner: str, name: str, dataset_id: str) -> None:
        """See DatasetNameStore."""
        self._client.call("HSET", _key(owner), name, dataset_id)

    def discard(self, owner: str, name: str, dataset_id: str) -> None:
        """See DatasetNameStore."""
        self._client.run(_DISCARD, [_key(owner)], [name, dataset_id])

    def resolve(self, owner: str, names: Sequence[str]) -> list[str | None]:
        """See DatasetNameStore."""
        if not names:
            return []
        dataset_ids: list[bytes | None] = self._client.call("HMGET", _key(owner), *names)
        return [dataset_id.decode() if dataset_id is not None else None for dataset_id in dataset_ids]


def _key(owner: str) -> str:
    return f"{{dn:{owner}}}"
