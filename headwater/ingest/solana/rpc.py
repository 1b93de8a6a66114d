"""A Solana node's JSON-RPC interface. Used by several threads."""

from typing import Any, Final, TypeVar

import msgspec

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.closing import Closing
from headwater.ingest.jsonrpc import Endpoint, ErrorObject, TransientFailure, checked
from headwater.ingest.solana.blocks import BLOCK, LINK, Block, Link

_T = TypeVar("_T")

MOST_SLOTS: Final = 500_000
"""That getBlocks takes at once."""

_HELP: Final = {
    -32007: "it lacks this block: use a node with more history",
    -32009: "it lacks this block: use a node with more history",
}
"""By error code (rpc_custom_error of the Solana client library): what trying again won't mend soon."""
_STOP: Final = {
    -32001: "it no longer keeps so old blocks: use a node with more history, or begin anew under another name",
    -32011: "it keeps no history of transactions: use a node that does (--enable-rpc-transaction-history)",
    -32015: "the block has a transaction of a version that is not supported yet",
}
"""What only the operator can mend."""

_SLOT: Final = msgspec.json.Decoder(int)
_SLOTS: Final = msgspec.json.Decoder(list[int])


class Rpc:
    """url: of the node. closing: when it is set, nothing waits and nothing is tried again."""

    def __init__(self, url: str, commitment: str, encoding: str, rate: float, closing: Closing) -> None:
        self._commitment = {"commitment": commitment}
        self._whole = {
            **self._commitment,
            "encoding": encoding,
            "transactionDetails": "full",
            "maxSupportedTransactionVersion": 0,
            "rewards": False,
        }
        self._node = Endpoint(url, rate, closing)

    def close(self) -> None:
        """Close the connections."""
        self._node.close()

    def newest(self) -> int:
        """The newest slot of the commitment. Raises NodeUnavailable, IngestStopped, as all of these."""
        return self._ask(_SLOT, "getSlot", self._commitment)

    def slots(self, first: int, last: int) -> list[int]:
        """The slots between these, both included, that have a block; a node that is behind leaves out the newest."""
        return self._ask(_SLOTS, "getBlocks", first, last, self._commitment)

    def slot_from(self, first: int) -> int | None:
        """The first slot from this one on that has a block; None when there is none yet."""
        slots = self._ask(_SLOTS, "getBlocksWithLimit", first, 1, self._commitment)
        return slots[0] if slots else None

    def block(self, slot: int) -> Block:
        """The block of a slot that has one."""
        block: Block = self._block(BLOCK, slot, self._whole)
        return block

    def parent_of(self, slot: int) -> int:
        """The slot of the block before that of a slot that has one."""
        link: Link = self._block(LINK, slot, {**self._whole, "transactionDetails": "none"})
        return link.parent_slot

    def _block(self, decoder: "msgspec.json.Decoder[_T | None]", slot: int, options: dict[str, Any]) -> _T:
        block = self._ask(decoder, "getBlock", slot, options, of=f" of slot {slot}")
        if block is None:
            raise NodeUnavailable(f"The node does not have the block of slot {slot} yet.")
        return block

    def _ask(self, decoder: "msgspec.json.Decoder[_T]", method: str, *params: Any, of: str = "") -> _T:
        """The result of a call. of: what the call is about, for sentences that name it."""
        call = f" {method}{of}"
        return self._node.retried(lambda: self._once(decoder, method, params, call), call)

    def _once(self, decoder: "msgspec.json.Decoder[_T]", method: str, params: tuple[Any, ...], call: str) -> _T:
        request = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answer = checked(self._node.post(request))
        if isinstance(answer, list):
            raise TransientFailure("what it sends is no JSON-RPC")
        if answer.error is not None:
            raise self._judged(answer.error, call)
        try:
            return decoder.decode(answer.result)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TransientFailure(f"what it sends is no answer to the question ({error})") from None

    def _judged(self, error: ErrorObject, call: str) -> Exception:
        """What may go better soon, or what takes longer."""
        said = self._node.clean(error.message)
        if error.code in _STOP:
            return IngestStopped(f"The node refuses{call}: {_STOP[error.code]} ({said}).")
        if error.code in _HELP:
            return NodeUnavailable(f"The node refuses{call}: {_HELP[error.code]} ({said}).")
        return TransientFailure(f"it says {said!r} ({error.code})")
