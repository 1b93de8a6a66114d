"""Calls the JSON-RPC methods of a Solana node."""

from typing import Any, Final, TypeVar

import msgspec

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.jsonrpc import Endpoint, ErrorObject, RetriableError, require_success
from headwater.ingest.solana.blocks import BLOCK, BLOCK_LINK, Block, BlockLink

_T = TypeVar("_T")

MAX_SLOTS_PER_CALL: Final = 500_000
"""The widest range of slots that getBlocks accepts."""

_UNAVAILABLE_REASONS: Final = {
    -32007: "it lacks this block: use a node with more history",
    -32009: "it lacks this block: use a node with more history",
}
"""Errors that a quick retry does not fix, by error code (rpc_custom_error of the Solana client library)."""
_FATAL_REASONS: Final = {
    -32001: "it no longer stores blocks that old: use a node with more history, or an ingest with another --name",
    -32011: "it stores no transaction history: use a node that does (--enable-rpc-transaction-history)",
    -32015: "the block has a transaction of a version that is not supported yet",
}
"""Errors that only the operator can solve, by error code."""

_SLOT: Final = msgspec.json.Decoder(int)
_SLOTS: Final = msgspec.json.Decoder(list[int])


class Rpc:
    """Calls the methods of one node. Thread-safe.

    Args:
        url: The node's URL.
        commitment: The commitment of the requested blocks: `finalized` or `confirmed`.
        encoding: The encoding of transactions: `json` or `base64`.
        rate: The calls per second; 0 for no limit.
        cancel_token: Once it is set, waits end and nothing is retried.
    """

    def __init__(self, *, url: str, commitment: str, encoding: str, rate: float, cancel_token: CancelToken) -> None:
        self._commitment = {"commitment": commitment}
        self._block_options = {
            **self._commitment,
            "encoding": encoding,
            "transactionDetails": "full",
            "maxSupportedTransactionVersion": 0,
            "rewards": False,
        }
        self._node = Endpoint(url, rate, cancel_token)

    def close(self) -> None:
        """Close the connections."""
        self._node.close()

    def newest_slot(self) -> int:
        """Return the newest slot of the commitment.

        Raises NodeError or IngestStopped, like all methods.
        """
        return self._call(_SLOT, "getSlot", self._commitment)

    def slots(self, first: int, last: int) -> list[int]:
        """Return the slots of a range, both ends included, that have a block.

        A lagging node omits the newest slots.
        """
        return self._call(_SLOTS, "getBlocks", first, last, self._commitment)

    def first_slot_from(self, first: int) -> int | None:
        """Return the first slot at or after the slot `first` that has a block.

        Returns None if no such slot has a block yet.
        """
        slots = self._call(_SLOTS, "getBlocksWithLimit", first, 1, self._commitment)
        return slots[0] if slots else None

    def block(self, slot: int) -> Block:
        """Return the block of a slot that has one."""
        block: Block = self._block(BLOCK, slot, self._block_options)
        return block

    def parent_slot(self, slot: int) -> int:
        """Return the parent slot of the block in a slot."""
        link: BlockLink = self._block(BLOCK_LINK, slot, {**self._block_options, "transactionDetails": "none"})
        return link.parent_slot

    def _block(self, decoder: "msgspec.json.Decoder[_T | None]", slot: int, options: dict[str, Any]) -> _T:
        block = self._call(decoder, "getBlock", slot, options, subject=f" of slot {slot}")
        if block is None:
            raise NodeUnavailable(f"The node does not have the block of slot {slot} yet.")
        return block

    def _call(self, decoder: "msgspec.json.Decoder[_T]", method: str, *params: Any, subject: str = "") -> _T:
        """Return the result of a call. `subject` is what the call is about, for error messages."""
        what = f" {method}{subject}"
        return self._node.call_with_retries(lambda: self._call_once(decoder, method, params, what), what)

    def _call_once(self, decoder: "msgspec.json.Decoder[_T]", method: str, params: tuple[Any, ...], what: str) -> _T:
        request = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        response = require_success(self._node.post(request))
        if isinstance(response, list):
            raise RetriableError("the response is not JSON-RPC")
        if response.error is not None:
            raise self._classify(response.error, what)
        try:
            return decoder.decode(response.result)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RetriableError(f"the response has an unexpected form ({error})") from None

    def _classify(self, error: ErrorObject, what: str) -> Exception:
        """Map a JSON-RPC error to a retriable error, to NodeUnavailable or to IngestStopped."""
        message = self._node.redact_and_shorten(error.message)
        if error.code in _FATAL_REASONS:
            return IngestStopped(f"The node refuses{what}: {_FATAL_REASONS[error.code]} ({message}).")
        if error.code in _UNAVAILABLE_REASONS:
            return NodeUnavailable(f"The node refuses{what}: {_UNAVAILABLE_REASONS[error.code]} ({message}).")
        return RetriableError(f"the node says {message!r} ({error.code})")
