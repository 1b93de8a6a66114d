"""Answers of public nodes and providers, and what each of them means."""

import pytest

from headwater.ingest.evm.refusals import Refusal, refusal_of

ANSWERS = [
    # Rates and quotas.
    (429, 0, "", Refusal.RATE_LIMITED),
    (200, -32005, "daily request count exceeded, request rate limited", Refusal.RATE_LIMITED),
    (200, -32005, "project ID request rate exceeded", Refusal.RATE_LIMITED),
    (200, 429, "Your app has exceeded its compute units per second capacity.", Refusal.RATE_LIMITED),
    (200, 429, "Monthly capacity limit exceeded.", Refusal.RATE_LIMITED),
    (200, -32007, "50/second request limit reached - reduce calls per second", Refusal.RATE_LIMITED),
    (200, -32016, "over rate limit", Refusal.RATE_LIMITED),
    (200, -32000, "method call count limit exceeded", Refusal.RATE_LIMITED),
    (200, -32000, "Too Many Requests", Refusal.RATE_LIMITED),
    (200, -32090, "Too many requests, reason: call rate limit exhausted, retry in 10s", Refusal.RATE_LIMITED),
    (200, -32600, "rate limit: at most 10 batch requests per second", Refusal.RATE_LIMITED),
    (200, -32005, "You've exceeded the RPS limit available on the current plan", Refusal.RATE_LIMITED),
    # Batches.
    (200, -32600, "batch requests are not supported", Refusal.BATCH_UNSUPPORTED),
    (200, -32600, "Batch requests are not supported", Refusal.BATCH_UNSUPPORTED),
    (200, -32005, "Batched requests are not supported by this server", Refusal.BATCH_UNSUPPORTED),
    (400, -32600, "JSON-RPC batch calls are disabled", Refusal.BATCH_UNSUPPORTED),
    (200, -32600, "batch too large", Refusal.BATCH_TOO_LARGE),
    (500, 31, "Batch of more than 3 requests are not allowed on free tier", Refusal.BATCH_TOO_LARGE),
    (200, -32010, "The batch request was too large", Refusal.BATCH_TOO_LARGE),
    (400, -32600, "too many requests in batch", Refusal.BATCH_TOO_LARGE),
    (200, -32600, "Exceeded maximum batch size 20", Refusal.BATCH_TOO_LARGE),
    # Ranges and results.
    (400, 35, "ranges over 10000 blocks are not supported on freetier", Refusal.RANGE_TOO_LARGE),
    (200, -32000, "eth_getLogs is not supported without an address filter", Refusal.RANGE_TOO_LARGE),
    (200, -32701, "Please specify an address in your request", Refusal.RANGE_TOO_LARGE),
    (200, -32005, "query returned more than 10000 results", Refusal.RANGE_TOO_LARGE),
    (200, -32602, "Log response size exceeded.", Refusal.RANGE_TOO_LARGE),
    (200, -32600, "you can make eth_getLogs requests with up to a 10 block range", Refusal.RANGE_TOO_LARGE),
    (200, -32614, "eth_getLogs is limited to a 10,000 range", Refusal.RANGE_TOO_LARGE),
    (200, -32047, "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800",
     Refusal.RANGE_TOO_LARGE),
    (200, -32602, "exceed maximum block range: 5000", Refusal.RANGE_TOO_LARGE),
    (200, -32602, "query exceeds max results 20000, retry with the range 7-9", Refusal.RANGE_TOO_LARGE),
    (200, -32062, "Block range is too large", Refusal.RANGE_TOO_LARGE),
    (200, -32000, "Block range limit exceeded.", Refusal.RANGE_TOO_LARGE),
    (200, -32003, "response too large", Refusal.RANGE_TOO_LARGE),
    (200, -32012, "backend response too large", Refusal.RANGE_TOO_LARGE),
    (413, 0, "", Refusal.RANGE_TOO_LARGE),
    # A block that is not there yet is no matter of the range's size.
    (200, -32602, "block range extends beyond current head block", Refusal.BEHIND),
    (200, -32000, "invalid block range params", Refusal.BEHIND),
    (200, -32000, "One of the blocks specified in filter (fromBlock, toBlock or blockHash) cannot be found.",
     Refusal.BEHIND),
    (200, -32000, "header not found", Refusal.BEHIND),
    (200, -39001, "Unknown block", Refusal.BEHIND),
    # Methods.
    (200, -32601, "the method eth_getBlockReceipts does not exist/is not available", Refusal.METHOD_MISSING),
    (200, -32600, "Unsupported method: eth_getBlockReceipts", Refusal.METHOD_MISSING),
    (403, -32001, "rpc method is not whitelisted", Refusal.METHOD_MISSING),
    (200, -32004, "Method not supported", Refusal.METHOD_MISSING),
    # Time.
    (408, 30, "Request timeout on the free tier, please upgrade your tier", Refusal.TIMED_OUT),
    (408, 0, "", Refusal.TIMED_OUT),
    (200, -32002, "request timed out", Refusal.TIMED_OUT),
    (200, -32000, "execution aborted (timeout = 5s)", Refusal.TIMED_OUT),
    (200, -32000, "context deadline exceeded", Refusal.TIMED_OUT),
    (200, -32000, "query timeout exceeded", Refusal.TIMED_OUT),
    # Keys.
    (401, 0, "", Refusal.UNAUTHORIZED),
    (200, -32000, "Unauthorized: you must authenticate your request", Refusal.UNAUTHORIZED),
    # What no rule knows.
    (200, -32001, "Unable to complete request at this time.", Refusal.UNKNOWN),
    (200, -32000, "receipts length mismatch: 1 vs 0", Refusal.UNKNOWN),
    (200, -32005, "limit exceeded", Refusal.UNKNOWN),
    (503, 0, "", Refusal.UNKNOWN),
    (500, 0, "internal error", Refusal.UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("status", "code", "words", "meaning"), ANSWERS)
def test_an_answer_means(status: int, code: int, words: str, meaning: Refusal) -> None:
    assert refusal_of(status, code, words) is meaning
    assert refusal_of(status, code, words.upper()) is meaning
