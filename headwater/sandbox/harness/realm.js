// Prepares a script's realm, before the script: takes away what a script must not have, makes time and chance follow
// the record, lets big integers survive JSON, and gives the script `console`. Evaluates to the harness's own handles.
//
// Everything used after the script has run is a private copy: the script may replace any built-in that it can see.
(() => {
  'use strict';
  const G = globalThis;
  const uncurry = (f) => Function.prototype.call.bind(f);
  const { ownKeys, getOwnPropertyDescriptor: descriptor, getPrototypeOf, construct } = Reflect;
  const { defineProperty, freeze, create, hasOwn, preventExtensions } = Object;
  const isArray = Array.isArray, isError = Error.isError, parse = JSON.parse, stringify = JSON.stringify, rawJSON = JSON.rawJSON;
  const Text = String, Big = BigInt, ObjectPrototype = Object.prototype, ArrayPrototype = Array.prototype, FrozenError = TypeError;
  const indexOf = uncurry(String.prototype.indexOf), lastIndexOf = uncurry(String.prototype.lastIndexOf), slice = uncurry(String.prototype.slice);
  const endsWith = uncurry(String.prototype.endsWith);
  const charCodeAt = uncurry(String.prototype.charCodeAt), bigToText = uncurry(BigInt.prototype.toString);
  const match = uncurry(RegExp.prototype.exec), imul = Math.imul;

  const hidden = (object, key, value) => defineProperty(object, key, { __proto__: null, value });
  const replace = (object, key, value) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, configurable: true });

  // ---- what a script has ----

  const KEPT = ('Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date ' +
    'Promise RegExp Error AggregateError EvalError RangeError ReferenceError SuppressedError SyntaxError TypeError ' +
    'URIError globalThis JSON Math Intl ArrayBuffer Uint8Array Int8Array Uint16Array Int16Array Uint32Array ' +
    'Int32Array BigUint64Array BigInt64Array Uint8ClampedArray Float16Array Float32Array Float64Array DataView Map ' +
    'BigInt Set Iterator WeakMap WeakSet Proxy Reflect decodeURI decodeURIComponent encodeURI encodeURIComponent ' +
    'escape unescape eval isFinite isNaN Temporal DisposableStack AsyncDisposableStack').split(' ');
  for (const key of ownKeys(G)) if (!KEPT.includes(key)) delete G[key];
  // `RegExp.$1` and its like would show one record's last match to the next record.
  for (const key of ownKeys(RegExp)) if (!['length', 'name', 'prototype', 'escape', Symbol.species].includes(key)) delete RegExp[key];
  // Call sites would hand out functions of the outer realm.
  for (const key of ['prepareStackTrace', 'captureStackTrace']) hidden(Error, key, undefined);
  hidden(Error, 'stackTraceLimit', 10);

  // ---- time and chance ----

  // What the code of a script sees of the world. columns(): those of the batch's records, by their runs.
  const call = { row: -1, columns: null, seeded: false, lines: null };
  const at = (column, row) => {
    const values = column[0], ends = column[1];
    let first = 0, last = ends.length - 1;
    while (first < last) {
      const middle = (first + last) >> 1;
      if (row < ends[middle]) last = middle; else first = middle + 1;
    }
    return values[first];
  };
  const now = () => call.columns === null ? noteOutside('time') : at(call.columns().timestamps, call.row);
  const position = ({ topic, partitions, offsets, indexes }, row) =>
    topic + '/' + at(partitions, row) + '/' + (at(offsets, row) + row) + '/' + at(indexes, row);

  // Where scripts are checked: the first use of time or chance while no record is processed.
  const FirstError = Error;
  call.watched = false; call.outside = null;
  const noteOutside = (what) => {
    if (call.watched && call.outside === null) call.outside = { what, stack: new FirstError().stack };
    return 0;
  };
  const RealDate = Date, wallClock = Date.now, dateText = uncurry(RealDate.prototype.toString);
  const FixedDate = function (...parts) {
    if (new.target === undefined) return dateText(new RealDate(now()));
    return construct(RealDate, parts.length === 0 ? [now()] : parts, new.target);
  };
  for (const key of ownKeys(RealDate)) defineProperty(FixedDate, key, descriptor(RealDate, key));
  replace(FixedDate, 'now', { now: () => now() }.now);
  replace(RealDate.prototype, 'constructor', FixedDate);
  replace(G, 'Date', FixedDate);

  const formatter = Intl.DateTimeFormat.prototype;
  const boundFormat = uncurry(descriptor(formatter, 'format').get), toParts = uncurry(formatter.formatToParts);
  defineProperty(formatter, 'format', {
    get() { const format = boundFormat(this); return (date) => format(date === undefined ? now() : date); },
  });
  replace(formatter, 'formatToParts', function (date) { return toParts(this, date === undefined ? now() : date); });

  const fromMs = Temporal.Instant.fromEpochMilliseconds, toZoned = uncurry(Temporal.Instant.prototype.toZonedDateTimeISO);
  const zoned = (zone = 'UTC') => toZoned(fromMs(now()), zone);
  const local = { __proto__: null };
  for (const part of ['toPlainDateTime', 'toPlainDate', 'toPlainTime']) local[part] = uncurry(Temporal.ZonedDateTime.prototype[part]);
  replace(Temporal.Now, 'instant', () => fromMs(now()));
  replace(Temporal.Now, 'zonedDateTimeISO', zoned);
  replace(Temporal.Now, 'plainDateTimeISO', (zone) => local.toPlainDateTime(zoned(zone)));
  replace(Temporal.Now, 'plainDateISO', (zone) => local.toPlainDate(zoned(zone)));
  replace(Temporal.Now, 'plainTimeISO', (zone) => local.toPlainTime(zoned(zone)));

  // xoshiro128**, seeded by a hash of the record's position when a script first asks.
  let a = 0, b = 0, c = 0, d = 0;
  const rotate = (x, n) => (x << n) | (x >>> (32 - n));
  const word = (text, start) => {
    let hash = start;
    for (let i = 0; i < text.length; i++) hash = imul(hash ^ charCodeAt(text, i), 0x01000193);
    hash = imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return (hash ^ (hash >>> 16)) | 0;
  };
  // A script at the end of its stack may see any call here fail: the state changes only behind all calls.
  const next = () => {
    const result = imul(rotate(imul(b, 5), 7), 9), shifted = b << 9, turned = rotate(d ^ b, 11);
    c ^= a; d ^= b; b ^= c; a ^= d; c ^= shifted; d = turned;
    return result >>> 0;
  };
  replace(Math, 'random', () => {
    if (!call.seeded) {
      if (call.columns === null) noteOutside('chance');
      const seed = call.columns === null ? '' : position(call.columns(), call.row);
      const first = word(seed, 0x811c9dc5), second = word(seed, 0x9e3779b9), third = word(seed, 0x7f4a7c15);
      d = word(seed, 0x2545f491) | 1;
      a = first; b = second; c = third;
      call.seeded = true;
    }
    return ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992;
  });

  // ---- numbers ----

  const EXACT = 9007199254740991;
  const isBig = (value) => value > EXACT || value < -EXACT;
  // Whether the text names a member once, and plainly, so that it can be no other. A quote inside a JSON string has a
  // backslash before it, so a name of letters and digits between two quotes is no part of a string.
  const isOnly = (text, name, opening) =>
    indexOf(text, name) === opening && indexOf(text, name, opening + name.length) < 0 && indexOf(text, '\\u') < 0;
  const LITERAL = /^[ \t\n\r]*:[ \t\n\r]*(-?\d{16,90})[ \t\n\r]*[,}]/, NAME = /^\w{1,100}$/, LITERAL_UNITS = 100;
  const repair = (object, key, text) => {
    const name = '"' + key + '"', opening = indexOf(text, name), end = opening + name.length;
    if (opening < 0 || match(NAME, key) === null || !isOnly(text, name, opening)) return false;
    const found = match(LITERAL, slice(text, end, end + LITERAL_UNITS));
    if (found === null) return false;
    object[key] = Big(found[1]);
    return true;
  };
  const isDigit = (unit) => unit >= '0' && unit <= '9', LONG = 16;
  // The number whose digits begin at a place, or null when it is no plain integer of so many digits. Behind letters
  // beyond ASCII the place is too far to the right, and may be that of another number. The last one is that of none,
  // since there is no long number behind it.
  const integerAt = (text, at) => {
    const comma = indexOf(text, ',', at), end = comma < 0 ? indexOf(text, '}', at) : comma;
    if (end - at < LONG || end - at > LITERAL_UNITS || !isDigit(text[at]) || !isDigit(text[at + LONG - 1])) return null;
    try { return Big(slice(text, text[at - 1] === '-' ? at - 1 : at, end)); } catch { return null; }
  };
  const BEFORE = /^"(\w{1,100})"[ \t\n\r]*:[ \t\n\r]*-?$/;
  const memberBefore = (text, at) => {
    const opening = lastIndexOf(text, '"', lastIndexOf(text, '"', at) - 1), before = slice(text, opening, at);
    const found = match(BEFORE, before);
    return found === null ? null : { key: found[1], name: '"' + found[1] + '"', before };
  };
  // Puts BigInts in the place of the integers whose digits begin at these places. False when there is room for doubt.
  // The n-th of a record most often belongs to the same member as that of the record before.
  const members = [];
  const repairAll = (record, text, places) => {
    for (let i = 0; i < places.length; i++) {
      const at = places[i];
      let member = i < members.length ? members[i] : null;
      if (member === null || !endsWith(text, member.before, at)) {
        member = memberBefore(text, at);
        if (member === null) return false;
        members[i < members.length ? i : members.length] = member;
      }
      const { key, name, before } = member, value = integerAt(text, at);
      if (value === null || !isOnly(text, name, at - before.length) || !hasOwn(record, key)) return false;
      if (isBig(record[key])) record[key] = value;
    }
    return true;
  };
  // Puts a BigInt in the place of every integer that a double can't hold. False when that takes reading the text again.
  // Most values are strings, which need no call. Index loops for arrays: `for in` over one makes the JIT give up.
  const exactly = (object, text) => {
    if (isArray(object)) {
      for (let i = 0; i < object.length; i++) {
        const value = object[i];
        if (typeof value === 'number' ? isBig(value) : typeof value === 'object' && value !== null && !exactly(value, text)) return false;
      }
    } else {
      for (const key in object) {
        const value = object[key];
        if (typeof value === 'string') continue;
        if (typeof value === 'number') {
          if (isBig(value) && !repair(object, key, text)) return false;
        } else if (typeof value === 'object' && value !== null && !exactly(value, text)) return false;
      }
    }
    return true;
  };
  const isInteger = (source) => indexOf(source, '.') < 0 && indexOf(source, 'e') < 0 && indexOf(source, 'E') < 0;
  const exact = (key, value, { source }) => typeof value === 'number' && isBig(value) && isInteger(source) ? Big(source) : value;
  // A parsed record with a BigInt for every integer that a double can't hold. places: where numbers of 16 digits and
  // more begin in its text, one for each of them, as far as it is ASCII. Where the short ways leave room for doubt the
  // text is read again; so it is when the script gave all objects enumerable properties, which `exactly` would walk into.
  let walkable = true;
  const withExact = (record, text, places) =>
    repairAll(record, text, places) || (walkable && exactly(record, text)) ? record : parse(text, exact);
  replace(BigInt.prototype, 'toJSON', { toJSON() { return rawJSON(bigToText(this)); } }.toJSON);

  // ---- console ----

  const MAX_LINES = 20, MAX_LINE = 1000;
  const show = (value) => {
    try {
      if (typeof value === 'object' && value !== null && !isError(value)) return Text(stringify(value));
      return Text(value);
    } catch { return '[unprintable]'; }
  };
  const print = (...values) => {
    if (call.lines === null) call.lines = [];
    const { lines } = call;
    if (lines.length >= MAX_LINES) return;
    let line = '';
    for (let i = 0; i < values.length && line.length <= MAX_LINE; i++) line += (i ? ' ' : '') + show(values[i]);
    lines[lines.length] = slice(line, 0, MAX_LINE);
  };
  const console = create(null);
  for (const name of ['log', 'info', 'warn', 'error', 'debug']) replace(console, name, print);
  replace(G, 'console', console);

  // ---- freezing ----

  const intrinsics = [], known = new Set();
  const collect = (value) => {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || known.has(value)) return;
    known.add(value);
    intrinsics[intrinsics.length] = value;
    collect(getPrototypeOf(value));
    for (const key of ownKeys(value)) {
      const { value: inner, get, set } = descriptor(value, key);
      collect(inner); collect(get); collect(set);
    }
  };
  // Assigning to an instance must go on working where scripts do it: `record.toString = …`, `error.name = …`.
  const assignable = (object) => {
    for (let i = 0, keys = ownKeys(object); i < keys.length; i++) {
      const key = keys[i], found = descriptor(object, key), value = found.value;
      if (!hasOwn(found, 'writable') || !found.writable) continue;
      const set = function (own) {
        if (this === object) throw new FrozenError('built-ins are frozen');
        defineProperty(this, key, { __proto__: null, value: own, writable: true, enumerable: true, configurable: true });
      };
      defineProperty(object, key, { __proto__: null, get: freeze(() => value), set: freeze(set), configurable: false });
    }
  };
  const hasEnumerable = (object) => {
    for (const key in object) return true;
    return false;
  };
  const errors = [Error, AggregateError, EvalError, RangeError, ReferenceError, SuppressedError, SyntaxError, TypeError, URIError];
  const overridden = [ObjectPrototype, ...errors.map((error) => error.prototype)];
  const iterators = [[][Symbol.iterator](), ''[Symbol.iterator](), new Map().keys(), new Set().keys(), ''.matchAll(/a/g),
    [].values().map((x) => x), Iterator.from({ next() {} }), new Intl.Segmenter().segment('')[Symbol.iterator]()];
  const functions = [function* () {}, async function () {}, async function* () {}];
  for (const root of [...iterators, ...functions]) collect(getPrototypeOf(root));
  collect(getPrototypeOf(new Intl.Segmenter().segment('')));
  for (const key of KEPT) collect(key === 'globalThis' ? null : G[key]);
  collect(console);

  // As Object.freeze, which would take the fast path away from every append to an array. Changed property by property
  // an object is slow, until it is looked up as a prototype again.
  const freezeSoftly = (object) => {
    for (let i = 0, keys = ownKeys(object); i < keys.length; i++) {
      const text = typeof keys[i] === 'string' ? keys[i] : '', found = descriptor(object, keys[i]);
      if (text !== '' && text[0] >= '0' && text[0] <= '9') throw new FrozenError('index properties on a prototype of all arrays');
      if (hasOwn(found, 'writable') && found.writable) defineProperty(object, keys[i], { __proto__: null, writable: false });
      defineProperty(object, keys[i], { __proto__: null, configurable: false });
    }
    preventExtensions(object);
    return create(object).none;
  };

  const lockGlobal = (name) => {
    const found = descriptor(G, name);
    if (found !== undefined && found.configurable) {
      defineProperty(G, name, { __proto__: null, writable: false, configurable: false });
    }
  };

  // After the script's top level: from here on no record can change what another record sees of the built-ins.
  const seal = () => {
    walkable = !hasEnumerable({});
    for (let i = 0; i < overridden.length; i++) assignable(overridden[i]);
    freezeSoftly(ObjectPrototype);
    freezeSoftly(ArrayPrototype);
    for (let i = 0; i < intrinsics.length; i++) {
      if (intrinsics[i] !== ObjectPrototype && intrinsics[i] !== ArrayPrototype) freeze(intrinsics[i]);
    }
    for (let i = 0; i < KEPT.length; i++) lockGlobal(KEPT[i]);
    lockGlobal('console');
  };

  return {
    __proto__: null, uncurry, isArray, stringify, freeze, create, hidden, slice, indexOf, Text, match, withExact,
    wallClock, seal, call,
  };
})();
