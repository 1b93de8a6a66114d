"""Built-in functions and objects, grouped by their effect on arguments and receiver."""

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


RETURN_PRIMITIVES: Final = _names(
    """has includes indexOf lastIndexOf some every join toString startsWith endsWith test search toLowerCase toUpperCase
    trim trimStart trimEnd charAt charCodeAt codePointAt localeCompare hasOwnProperty findIndex findLastIndex toFixed
    toPrecision toLocaleString format getTime toISOString isSubsetOf isSupersetOf isDisjointFrom forEach padStart padEnd
    replace replaceAll substring substr repeat normalize select getUTCFullYear getUTCMonth getUTCDate getUTCDay
    getUTCHours getUTCMinutes getUTCSeconds"""
)
RETURN_MEMBERS: Final = _names("get at find findLast")
ITERATOR_CONSUMERS: Final = _names("Array.from Object.fromEntries Object.groupBy Map.groupBy Set Map WeakMap WeakSet")
"""Functions that read an iterator argument to its end."""
SORTING_METHODS: Final = _names("sort toSorted")
ITERATOR_METHODS: Final = _names("keys values entries matchAll")
PURE_METHODS: Final = (
    RETURN_PRIMITIVES
    | RETURN_MEMBERS
    | ITERATOR_METHODS
    | _names(
        """exec match split slice filter map flatMap flat concat reduce reduceRight toSorted toReversed toSpliced with
        formatToParts resolvedOptions union intersection difference symmetricDifference encode"""
    )
)
"""Methods of built-in objects that don't change the object on which they are called."""
CALLBACK_ARGUMENT: Final = {
    **dict.fromkeys(
        _names(
            "some every find findLast findIndex findLastIndex filter map flatMap reduce reduceRight forEach toSorted "
            "sort"
        ),
        0,
    ),
    **dict.fromkeys(_names("replace replaceAll Array.from Object.groupBy Map.groupBy JSON.stringify JSON.parse"), 1),
}
"""The index of the callback argument of functions that call it."""
FILLING_METHODS: Final = _names("push unshift add set sort reverse fill")
"""Methods that change the object on which they are called; the top level may fill its objects with them."""
MUTATING_METHODS: Final = FILLING_METHODS | _names(
    """pop shift splice copyWithin delete clear next return throw decode compile getOrInsert getOrInsertComputed resize
    transfer transferToFixedLength take drop toArray then catch finally call apply bind valueOf subarray
    __defineGetter__ __defineSetter__"""
)
"""Methods that change the object on which they are called, or let it escape.

Each method whose name begins with "set" counts as one too, without being listed here.
"""
PURE_CALLS: Final = _names(
    """String Number BigInt Boolean Symbol parseInt parseFloat isNaN isFinite atob btoa encodeURIComponent
    decodeURIComponent encodeURI decodeURI escape unescape JSON.stringify Array.isArray Object.hasOwn Object.is
    Object.keys String.fromCharCode String.fromCodePoint String.raw Number.isInteger Number.isSafeInteger
    Number.isFinite Number.isNaN Number.parseInt Number.parseFloat BigInt.asUintN BigInt.asIntN Date.parse Date.UTC
    Date.now flow.contains structuredClone"""
)
"""Functions whose results don't reference their arguments."""
COPIES: Final = _names(
    """Object.values Object.entries Object.fromEntries Object.freeze Object.groupBy Map.groupBy Array.from Array.of
    Array JSON.parse"""
)
"""Functions whose results may reference their arguments, members of these, or the results of their callbacks.
Array.from has a callback, and so has JSON.parse: the reviver."""
COPY_MEMBERS: Final = _names("Object.values Object.entries Array.from")
"""The functions of COPIES whose results reference members of the arguments, but never the arguments themselves."""
PURE_OBJECTS: Final = _names("Math console")
"""Objects whose functions all count as PURE_CALLS."""
CONSTANT_OBJECTS: Final = _names("Math Number Symbol")
"""Objects whose members reach no surviving object."""
PASSABLE_GLOBALS: Final = _names(
    "undefined NaN Infinity Boolean String Number BigInt parseInt parseFloat isNaN isFinite encodeURIComponent "
    "decodeURIComponent"
)
"""Globals that may be passed on, because they can't be changed."""
COLLECTIONS: Final = _names("Set Map Array")
BUILTIN_CLASSES: Final = COLLECTIONS | _names(
    """Object WeakMap WeakSet Error TypeError RangeError SyntaxError TextEncoder TextDecoder Date Uint8Array Uint16Array
    Uint32Array Int8Array Int16Array Int32Array Float32Array Float64Array BigInt64Array BigUint64Array
    Uint8ClampedArray ArrayBuffer DataView Intl.NumberFormat Intl.DateTimeFormat Intl.Collator Intl.PluralRules
    Intl.ListFormat Intl.RelativeTimeFormat Intl.DisplayNames"""
)
FORBIDDEN_GLOBALS: Final = _names("globalThis eval Function Reflect Proxy arguments Iterator")
FORBIDDEN_MEMBERS: Final = _names("constructor prototype __proto__ caller callee buffer")
"""Members that lead from an object to surviving objects."""
