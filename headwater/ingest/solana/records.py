"""Converts blocks to records of the stream `nonvoting_transaction`.

Field names are those of the public schema of the data source. `parsed`, `parsed_type` and `program_name` are null: they
would come from the node's parser (encoding `jsonParsed`). Its output depends on the node's version and omits the raw
data of parsed instructions, so it is not used; every instruction here has its data. What the node did not record is
null, never empty.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from headwater.ingest.base import StreamRecord
from headwater.ingest.solana.blocks import (
    Block,
    DecodedTransaction,
    Header,
    Instruction,
    Meta,
    TableLookup,
    TokenBalance,
    TransactionEntry,
    decode_transaction,
    instruction,
)

ENTITY: Final = "nonvoting_transaction"

_encode: Final = msgspec.json.Encoder().encode
Json = dict[str, Any]


def records(block: Block, slot: int, chain_name: str) -> Iterator[StreamRecord]:
    """Yield a record for each transaction of a block except votes. Raises ValueError when one can't be converted."""
    about = {
        "block_slot": slot,
        "block_height": block.block_height,
        "block_timestamp": _timestamp(block.block_time),
        "block_hash": block.blockhash,
    }
    for index, entry in enumerate(block.transactions):
        record = transaction_record(entry, index, about)
        if record is not None:
            yield StreamRecord(ENTITY, f"{chain_name}:{record['txn_id']}".encode(), _encode(record))


def transaction_record(entry: TransactionEntry, index: int, about: Json) -> Json | None:
    """Convert a transaction to a record; None for a vote.

    `about` has the members that describe the block. Raises ValueError when the transaction can't be converted.
    """
    transaction, meta = decode_transaction(entry), entry.meta
    if transaction is None:
        return None
    if meta is None:
        raise ValueError(f"the node does not say how transaction {index} ended (it keeps no transaction history)")
    return {**about, **_Transaction(transaction, meta, index).record()}


class _Transaction:
    """Converts one transaction to a record."""

    def __init__(self, transaction: DecodedTransaction, meta: Meta, index: int) -> None:
        self._transaction = transaction
        self._meta = meta
        self._index = index
        self._txn_id = transaction.signatures[0]
        self._success = bytes(meta.err) == b"null"
        self._keys = [*transaction.account_keys]
        if meta.loaded_addresses is None:
            if transaction.lookups:
                raise ValueError(f"the node does not say which addresses transaction {index} loads from lookup tables")
        else:
            self._keys += [*meta.loaded_addresses.writable, *meta.loaded_addresses.readonly]

    def record(self) -> Json:
        transaction, meta = self._transaction, self._meta
        before, after = (self._token_balances(kind) for kind in (meta.pre_token_balances, meta.post_token_balances))
        balances = None if before is None or after is None else [*before, *after]
        outer, inner = self._instructions()
        return {
            "txn_id": self._txn_id,
            "txn_index": self._index,
            "version": transaction.version,
            "signatures": transaction.signatures,
            "fee": meta.fee,
            "compute_units_consumed": meta.compute_units_consumed,
            "err": _error(meta.err),
            "success": self._success,
            "is_voting": False,
            "recent_block_hash": transaction.recent_blockhash,
            "signer": self._keys[0],
            "account_keys": self._account_keys(),
            "pubkeys": self._keys,
            "address_table_lookups": _lookups(transaction.lookups),
            "log_messages": meta.log_messages,
            "pre_balances": meta.pre_balances,
            "post_balances": meta.post_balances,
            "pre_token_balances": before,
            "post_token_balances": after,
            "mint_to_decimals": _mapping(balances, "mint", "decimals"),
            "token_accounts": _mapping(balances, "account", "mint"),
            "sol_amounts": self._sol_amounts(),
            "instruction_count": len(outer),
            "instructions": outer,
            "inner_instructions": inner,
        }

    def _account_keys(self) -> list[Json]:
        own = len(self._transaction.account_keys)
        writable = _writable(self._transaction.header, own)
        loaded = self._meta.loaded_addresses
        writable += [True] * len(loaded.writable) + [False] * len(loaded.readonly) if loaded else []
        signers = self._transaction.header.num_required_signatures
        return [
            {
                "pubkey": key,
                "signer": place < signers,
                "source": "transaction" if place < own else "lookupTable",
                "writable": writes,
            }
            for place, (key, writes) in enumerate(zip(self._keys, writable, strict=True))
        ]

    def _token_balances(self, balances: Sequence[TokenBalance] | None) -> list[Json] | None:
        if balances is None:
            return None
        return [
            {
                "account_index": one.account_index,
                "account": self._keys[one.account_index],
                "amount": one.ui_token_amount.amount,
                "mint": one.mint,
                "owner": one.owner,
                "decimals": one.ui_token_amount.decimals,
            }
            for one in balances
        ]

    def _sol_amounts(self) -> dict[str, int]:
        balances = zip(self._keys, self._meta.pre_balances, self._meta.post_balances, strict=True)
        return {key: after - before for key, before, after in balances if after != before}

    def _instructions(self) -> tuple[list[Json], list[Json] | None]:
        """Return the transaction's instructions, and the inner instructions; None if these were not recorded."""
        recorded = self._meta.inner_instructions
        groups = {group.index: group.instructions for group in recorded or ()}
        outer: list[Json] = []
        inner: list[Json] = []
        for place, one in enumerate(self._transaction.instructions):
            called = groups.get(place, ())
            count = None if recorded is None else len(called)
            outer.append({**self._instruction(one, place), "inner_instruction_count": count})
            inner += [
                {
                    **self._instruction(instruction(each, each.stack_height), place),
                    "inner_instruction_count": None,
                    "inner_instruction_index": number,
                    "parent_instruction_program_id": self._keys[one.program],
                }
                for number, each in enumerate(called)
            ]
        return outer, None if recorded is None else inner

    def _instruction(self, one: Instruction, place: int) -> Json:
        keys = self._keys
        return {
            "txn_id": self._txn_id,
            "txn_index": self._index,
            "instruction_index": place,
            "program_id": keys[one.program],
            "program_name": None,
            "parsed": None,
            "parsed_type": None,
            "accounts": [keys[account] for account in one.accounts],
            "data": one.base58,
            "data_hex": one.data.hex(),
            "stack_height": one.stack_height,
            "is_voting": False,
            "parent_tx_signer": keys[0],
            "parent_tx_success": self._success,
        }


def _writable(header: Header, keys: int) -> list[bool]:
    """Return whether each account is writable according to the message header.

    The runtime treats system accounts and called programs as read-only anyway.
    """
    signers = header.num_required_signatures
    writable_signers = signers - header.num_readonly_signed_accounts
    last = keys - header.num_readonly_unsigned_accounts
    return [place < writable_signers or signers <= place < last for place in range(keys)]


def _lookups(lookups: Sequence[TableLookup] | None) -> list[Json] | None:
    return None if lookups is None else [msgspec.structs.asdict(lookup) for lookup in lookups]


def _mapping(balances: Sequence[Json] | None, name: str, value: str) -> Json | None:
    """Return a mapping from one member of token balances to another; None if not all balances were recorded."""
    return None if balances is None else {one[name]: one[value] for one in balances}


def _timestamp(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _error(err: msgspec.Raw) -> str | None:
    """Return a named error such as `AccountInUse` unchanged, other errors as JSON."""
    decoded = msgspec.json.decode(err)
    return decoded if decoded is None or isinstance(decoded, str) else _encode(decoded).decode()
