"""The global names of every script, and advice for names that scripts don't have.

The realms of the harness have the same names, as a test verifies.
"""

_GLOBALS = """
    Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise
    RegExp Error AggregateError EvalError RangeError ReferenceError SuppressedError SyntaxError TypeError
    URIError globalThis JSON Math Intl ArrayBuffer Uint8Array Int8Array Uint16Array Int16Array Uint32Array
    Int32Array BigUint64Array BigInt64Array Uint8ClampedArray Float16Array Float32Array Float64Array DataView
    Map BigInt Set Iterator WeakMap WeakSet Proxy Reflect decodeURI decodeURIComponent encodeURI
    encodeURIComponent escape unescape eval isFinite isNaN Temporal DisposableStack AsyncDisposableStack console
    flow atob btoa TextEncoder TextDecoder structuredClone
"""
GLOBALS = frozenset(_GLOBALS.split())
"""The global names of a script's realm."""
_NO_NETWORK = (
    "scripts have no network: put what you would look up into a dataset and ask `flow.contains`, or look it up where "
    "the sink's topic is read"
)
_NO_TIMERS = "scripts have no timers: what `process(record)` returns is all that happens"
_NO_CRYPTO = "there is no cryptography: paste a function in plain JavaScript, such as a keccak256, into the script"
_DECODED = (
    "there is no ABI decoder: choose the stream `decoded_log`, whose records have the event's name and params, or cut "
    "the words out of `data` by `BigInt('0x' + data.slice(2, 66))`"
)
_NO_LIBRARY = "there are no libraries: paste the functions that the script needs into it"
_DATASETS = "there is no key-value store: keep a list in a dataset and ask `flow.contains(name, values)`"
_NO_MODULES = "a script is one file: paste what it needs into it"
_NO_PAGE = "scripts run neither in a browser nor in Node: the members of `globalThis` are all that they have"
_BYTES = (
    "use Uint8Array with TextEncoder, atob and btoa; `parseInt(text, 16)` and `BigInt('0x…')` read hexadecimal digits"
)
_NO_SHARING = "nothing is shared between records or threads"

_ADVICE = {
    **dict.fromkeys(("Buffer",), _BYTES),
    **dict.fromkeys(("crypto", "createHash", "CryptoJS", "keccak256", "sha3", "sha256"), _NO_CRYPTO),
    **dict.fromkeys(
        ("fetch", "XMLHttpRequest", "WebSocket", "EventSource", "axios", "got", "http", "https"), _NO_NETWORK
    ),
    **dict.fromkeys(("Request", "Response", "Headers", "FormData", "AbortController", "navigator"), _NO_NETWORK),
    **dict.fromkeys(("setTimeout", "setInterval", "setImmediate", "queueMicrotask"), _NO_TIMERS),
    **dict.fromkeys(("clearTimeout", "clearInterval", "requestAnimationFrame"), _NO_TIMERS),
    **dict.fromkeys(
        ("decodeEVMReceipts", "decodeEVMLogs", "decodeEVMTraces", "AbiCoder", "abi", "decodeLog"), _DECODED
    ),
    **dict.fromkeys(("ethers", "web3", "Web3", "viem", "decodeEventLog", "decodeAbiParameters"), _DECODED),
    **dict.fromkeys(("qnLib", "KV", "kv", "kvStore", "redis", "localStorage", "sessionStorage", "storage"), _DATASETS),
    **dict.fromkeys(("lodash", "moment", "dayjs", "BigNumber", "Decimal", "bs58", "solanaWeb3"), _NO_LIBRARY),
    **dict.fromkeys(("require", "module", "exports", "importScripts", "__dirname", "__filename"), _NO_MODULES),
    **dict.fromkeys(("window", "self", "document", "global", "Deno", "Bun", "location"), _NO_PAGE),
    **dict.fromkeys(("Atomics", "SharedArrayBuffer", "Worker", "WeakRef", "FinalizationRegistry"), _NO_SHARING),
    "URL": "parse URLs with a regular expression, or with split",
    "URLSearchParams": "parse query strings with split and decodeURIComponent",
    "WebAssembly": "scripts can run only JavaScript",
    "performance": "the time does not move during a call: `Date.now()` is the record's timestamp",
    "benthos": "a script is called with the record, and returns the records to pass on",
    "context": "a script is called only with the record",
}
MEMBERS_OF_PROCESS = {
    "env": "there are no environment variables: write their values into the script",
    "argv": "a script has no arguments",
    "nextTick": _NO_TIMERS,
    "exit": "to drop a record, return null",
    "hrtime": "the time does not move during a call: `Date.now()` is the record's timestamp",
    "stdout": "use console.log",
    "on": "a script has no events",
}


def advice_for(name: str) -> str:
    """Return the advice for an unavailable global name such as `fetch`.

    Returns "" for a name without advice.
    """
    return _ADVICE.get(name, "")
