"""The classification of error responses of public nodes and providers."""

import pytest

from headwater.ingest.evm.error_kinds import ErrorKind, classify_error

LOOKUP_RESPONSE = [
    # Rates and quotas.
    (429, 0, "", ErrorKind.RATE_LIMITED),
    (200, -32005, "daily request count exceeded, request rate limited", ErrorKind.RATE_LIMITED),
    (200, -32005, "project ID request rate exceeded", ErrorKind.RATE_LIMITED),
    (200, 429, "Your app has exceeded its compute units per second capacity.", ErrorKind.RATE_LIMITED),
    (200, 429, "Monthly capacity limit exceeded.", ErrorKind.RATE_LIMITED),
    (200, -32007, "50/second request limit reached - reduce calls per second", ErrorKind.RATE_LIMITED),
    (200, -32016, "over rate limit", ErrorKind.RATE_LIMITED),
    (200, -32000, "method call count limit exceeded", ErrorKind.RATE_LIMITED),
    (200, -32000, "Too Many Requests", ErrorKind.RATE_LIMITED),
    (200, -32090, "Too many requests, reason: call rate limit exhausted, retry in 10s", ErrorKind.RATE_LIMITED),
    (200, -32600, "rate limit: at most 10 batch requests per second", ErrorKind.RATE_LIMITED),
    (200, -32005, "You've exceeded the RPS limit available on the current plan", ErrorKind.RATE_LIMITED),
    # Batches.
    (200, -32600, "batch requests are not supported", ErrorKind.BATCH_UNSUPPORTED),
    (200, -32600, "Batch requests are not supported", ErrorKind.BATCH_UNSUPPORTED),
    (200, -32005, "Batched requests are not supported by this server", ErrorKind.BATCH_UNSUPPORTED),
    (400, -32600, "JSON-RPC batch calls are disabled", ErrorKind.BATCH_UNSUPPORTED),
    (200, -32600, "batch too large", ErrorKind.BATCH_TOO_LARGE),
    (500, 31, "Batch of more than 3 requests are not allowed on free tier", ErrorKind.BATCH_TOO_LARGE),
    (200, -32010, "The batch request was too large", ErrorKind.BATCH_TOO_LARGE),
    (400, -32600, "too many requests in batch", ErrorKind.BATCH_TOO_LARGE),
    (200, -32600, "Exceeded maximum batch size 20", ErrorKind.BATCH_TOO_LARGE),
    # Ranges and results.
    (400, 35, "ranges over 10000 blocks are not supported on freetier", ErrorKind.CALL_TOO_LARGE),
    (200, -32000, "eth_getLogs is not supported without an address filter", ErrorKind.CALL_TOO_LARGE),
    (200, -32701, "Please specify an address in your request", ErrorKind.CALL_TOO_LARGE),
    (200, -32005, "query returned more than 10000 results", ErrorKind.CALL_TOO_LARGE),
    (200, -32602, "Log response size exceeded.", ErrorKind.CALL_TOO_LARGE),
    (200, -32600, "you can make eth_getLogs requests with up to a 10 block range", ErrorKind.CALL_TOO_LARGE),
    (200, -32614, "eth_getLogs is limited to a 10,000 range", ErrorKind.CALL_TOO_LARGE),
    (200, -32047, "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800",
     ErrorKind.CALL_TOO_LARGE),
    (200, -32602, "exceed maximum block range: 5000", ErrorKind.CALL_TOO_LARGE),
    (200, -32602, "query exceeds max results 20000, retry with the range 7-9", ErrorKind.CALL_TOO_LARGE),
    (200, -32062, "Block range is too large", ErrorKind.CALL_TOO_LARGE),
    (200, -32000, "Block range limit exceeded.", ErrorKind.CALL_TOO_LARGE),
    (200, -32003, "response too large", ErrorKind.CALL_TOO_LARGE),
    (200, -32012, "backend response too large", ErrorKind.CALL_TOO_LARGE),
    (413, 0, "", ErrorKind.CALL_TOO_LARGE),
    # A missing new block is not a matter of the range's size.
    (200, -32602, "block range extends beyond current head block", ErrorKind.BEHIND),
    (200, -32000, "invalid block range params", ErrorKind.BEHIND),
    (200, -32000, "One of the blocks specified in filter (fromBlock, toBlock or blockHash) cannot be found.",
     ErrorKind.BEHIND),
    (200, -32000, "header not found", ErrorKind.BEHIND),
    (200, -39001, "Unknown block", ErrorKind.BEHIND),
    # Methods.
    (200, -32601, "the method eth_getBlockReceipts does not exist/is not available", ErrorKind.METHOD_MISSING),
    (200, -32600, "Unsupported method: eth_getBlockReceipts", ErrorKind.METHOD_MISSING),
    (403, -32001, "rpc method is not whitelisted", ErrorKind.METHOD_MISSING),
    (200, -32004, "Method not supported", ErrorKind.METHOD_MISSING),
    # Time.
    (408, 30, "Request timeout on the free tier, please upgrade your tier", ErrorKind.TIMED_OUT),
    (408, 0, "", ErrorKind.TIMED_OUT),
    (200, -32002, "request timed out", ErrorKind.TIMED_OUT),
    (200, -32000, "execution aborted (timeout = 5s)", ErrorKind.TIMED_OUT),
    (200, -32000, "context deadline exceeded", ErrorKind.TIMED_OUT),
    (200, -32000, "query timeout exceeded", ErrorKind.TIMED_OUT),
    # Keys.
    (401, 0, "", ErrorKind.UNAUTHORIZED),
    (200, -32000, "Unauthorized: you must authenticate your request", ErrorKind.UNAUTHORIZED),
    # Unknown errors.
    (200, -32001, "Unable to complete request at this time.", ErrorKind.UNKNOWN),
    (200, -32000, "receipts length mismatch: 1 vs 0", ErrorKind.UNKNOWN),
    (200, -32005, "limit exceeded", ErrorKind.UNKNOWN),
    (503, 0, "", ErrorKind.UNKNOWN),
    (500, 0, "internal error", ErrorKind.UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("status", "code", "words", "meaning"), LOOKUP_RESPONSE)
def test_an_answer_means(status: int, code: int, words: str, meaning: ErrorKind) -> None:
    assert classify_error(status, code, words) is meaning
    assert classify_error(status, code, words.upper()) is meaning
