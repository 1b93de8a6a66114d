// Prepares a script's realm, before the script: takes away what a script must not have, makes the time and random
// numbers follow the record, and lets big integers survive JSON. Evaluates to the harness's own handles, which other parts
// add to.
//
// Everything used after the script has run is a private copy: the script may replace any built-in that it can see.
(() => {
  'use strict';
  const G = globalThis;
  const uncurry = (f) => Function.prototype.call.bind(f);
  const { ownKeys, getOwnPropertyDescriptor: descriptor, getPrototypeOf, construct } = Reflect;
  const { defineProperty, freeze, create, hasOwn, preventExtensions } = Object;
  const isArray = Array.isArray, isError = Error.isError, parse = JSON.parse, stringify = JSON.stringify, rawJSON = JSON.rawJSON, isRaw = JSON.isRawJSON;
  const Text = String, Big = BigInt, ObjectPrototype = Object.prototype, ArrayPrototype = Array.prototype, FrozenError = TypeError;
  const indexOf = uncurry(String.prototype.indexOf), lastIndexOf = uncurry(String.prototype.lastIndexOf), slice = uncurry(String.prototype.slice);
  const endsWith = uncurry(String.prototype.endsWith);
  const startsWith = uncurry(String.prototype.startsWith), charCodeAt = uncurry(String.prototype.charCodeAt);
  const bigToText = uncurry(BigInt.prototype.toString), bigValue = uncurry(BigInt.prototype.valueOf), invoke = uncurry(Function.prototype.call);
  const match = uncurry(RegExp.prototype.exec), imul = Math.imul, bind = uncurry(Function.prototype.bind);

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

  // ---- time and random numbers ----

  // The state of the present call of the script, which records.js sets and all parts read.
  //   row: the record's row, -1 between records; columns(): the columns of the batch, as runs of equal values;
  //   seeded: whether the record has asked for a random number; lines: what it has printed, null for nothing;
  //   writing: how a BigInt becomes JSON now; marks: how many BigInts of the present output were marked;
  //   careful: whether to use `stringifyCarefully`.
  const IDLE = 0, AS_DIGITS = 1, AS_MARKED = 2, AS_BIGINT = 3;
  const call = { row: -1, columns: null, seeded: false, lines: null, writing: IDLE, marks: 0, careful: false };
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

  // Where scripts are checked: the first use of the time or a random number while no record is processed.
  const FirstError = Error;
  call.watched = false; call.outside = null;
  const noteOutside = (what) => {
    if (call.watched && call.outside === null) call.outside = { what, stack: new FirstError().stack };
    return 0;
  };
  const RealDate = Date, wallClock = Date.now, dateText = uncurry(RealDate.prototype.toString);
  const makeDate = function (...parts) {
    if (new.target === undefined) return dateText(new RealDate(now()));
    return construct(RealDate, parts.length === 0 ? [now()] : parts, new.target);
  };
  makeDate.prototype = RealDate.prototype;
  const FixedDate = bind(makeDate, null);
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
  // Where the stack is nearly full any call here may fail: so the state changes only behind all calls.
  const next = () => {
    const result = imul(rotate(imul(b, 5), 7), 9), shifted = b << 9, turned = rotate(d ^ b, 11);
    c ^= a; d ^= b; b ^= c; a ^= d; c ^= shifted; d = turned;
    return result >>> 0;
  };
  replace(Math, 'random', () => {
    if (!call.seeded) {
      if (call.columns === null) noteOutside('random');
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

  // ---- numbers between scripts ----

  // A script that feeds another one writes a BigInt as `<digits>e0`, which no Number looks like, and a space before the
  // record for each, at most MAX_MARKS: so the reader knows which numbers are BigInts, and which records have none.
  const SPACES = '                ', MAX_MARKS = SPACES.length, MARK = 'e0';
  const INTEGER = /^-?\d+$/;
  const marked = (digits) => {
    call.marks += 1;
    return rawJSON(digits + MARK);
  };
  const unmarked = (key, value, { source }) => typeof value === 'number' && endsWith(source, MARK) ? Big(slice(source, 0, -2)) : value;
  // By the number of BigInts: the names of the members that held them in the last such record, null if others did.
  const bigMembers = [];
  const learnMembers = (record, count) => {
    const names = [];
    for (let i = 0, keys = ownKeys(record); i < keys.length; i++) {
      if (typeof record[keys[i]] === 'bigint') names[names.length] = keys[i];
    }
    for (let i = 0; i < names.length; i++) if (match(NAME, names[i]) === null) return null;
    return names.length === count ? names : null;
  };
  // Puts the BigInt in the place of a member, if it is plainly written and the text names it once.
  const restore = (record, key, text) => {
    const name = '"' + key + '":', opening = indexOf(text, name), first = opening + name.length;
    if (opening < 0 || !hasOwn(record, key) || indexOf(text, name, first) >= 0) return false;
    const end = indexOf(text, MARK, first), behind = text[end + MARK.length];
    if (end < 0 || (behind !== ',' && behind !== '}')) return false;
    try { record[key] = Big(slice(text, first, end)); } catch { return false; }
    return true;
  };
  const restoreAll = (record, text, names) => {
    for (let i = 0; i < names.length; i++) if (!restore(record, names[i], text)) return false;
    return true;
  };
  const parseMarked = (text) => {
    let count = 1;
    while (text[count] === ' ') count++;
    const names = count < bigMembers.length ? bigMembers[count] : null;
    if (names !== null) {
      const record = parse(text);
      if (restoreAll(record, text, names)) return record;
    }
    const record = parse(text, unmarked);
    while (bigMembers.length <= count) bigMembers[bigMembers.length] = null;
    bigMembers[count] = count < MAX_MARKS ? learnMembers(record, count) : null;
    return record;
  };
  // Once a script has made raw JSON itself, its raw numbers count as what they are: integers that a double can't hold as
  // BigInts, others as Numbers.
  let hasRaw = false;
  const markRaw = (key, value) => {
    if (typeof value === 'bigint') return marked(bigToText(value));
    if (!isRaw(value)) return value;
    const text = value.rawJSON, number = parse(text);
    if (typeof number !== 'number') return value;
    return isBig(number) && match(INTEGER, text) !== null ? marked(text) : number;
  };
  const stringifyMarked = (value) => {
    call.marks = 0;
    call.writing = hasRaw ? AS_BIGINT : AS_MARKED;
    try {
      return hasRaw ? stringify(value, markRaw) : call.careful ? stringifyCarefully(value) : stringify(value);
    } finally { call.writing = IDLE; }
  };
  replace(BigInt.prototype, 'toJSON', {
    toJSON() {
      const { writing } = call;
      if (writing === AS_BIGINT) return bigValue(this);
      if (writing === AS_MARKED) return marked(bigToText(this));
      if (writing === IDLE) hasRaw = true;
      return rawJSON(bigToText(this));
    },
  }.toJSON);

  // ---- a script's own JSON ----

  const TOO_DEEP = 'Maximum call stack size exceeded', CIRCLE = 'Converting circular structure to JSON';
  const messageOf = (error) => {
    try { return isError(error) ? Text(error.message) : ''; } catch { return ''; }
  };
  // The engine's fast way to write JSON goes round a circle many thousand times before it notices. A getter makes the engine
  // take its slow way, which notices at once, but overflows the stack at a smaller depth.
  const stringifyCarefully = (value) => {
    try {
      const text = stringify({ __proto__: null, get ''() { return value; } });
      return text === '{}' ? undefined : slice(text, 4, -1);
    } catch (error) {
      if (messageOf(error) === TOO_DEEP) return stringify(value);
      throw error;
    }
  };
  let hasCircles = false;
  const noticeCircle = (message) => { if (startsWith(message, CIRCLE)) hasCircles = call.careful = true; };
  const beginCalls = (isAlone) => {
    call.careful = isAlone || hasCircles;
    call.writing = IDLE;
  };
  const withRawBigInts = (replacer) => function (key, value) {
    const replaced = invoke(replacer, this, key, value);
    return typeof replaced === 'bigint' ? rawJSON(bigToText(replaced)) : replaced;
  };
  const stringifyOwn = (value, replacer, space) => {
    const { writing } = call, hasReplacer = typeof replacer === 'function';
    call.writing = hasReplacer ? AS_BIGINT : AS_DIGITS;
    try {
      if (hasReplacer) return stringify(value, withRawBigInts(replacer), space);
      return call.careful && replacer === undefined && space === undefined ? stringifyCarefully(value) : stringify(value, replacer, space);
    } catch (error) {
      noticeCircle(messageOf(error));
      throw error;
    } finally { call.writing = writing; }
  };
  const LONG_INTEGER = /[:,[\s-]\d{16}/;
  const keepDigits = (value, source) =>
    typeof value === 'number' && isBig(value) && isInteger(source) && Text(value) !== source ? Big(source) : value;
  const parseOwn = (text, reviver) => {
    const source = `${text}`;
    if (!isDigit(source[0]) && match(LONG_INTEGER, source) === null) return parse(source, reviver);
    if (typeof reviver !== 'function') return parse(source, (key, value, context) => keepDigits(value, context.source));
    return parse(source, function (key, value, context) {
      return invoke(reviver, this, key, keepDigits(value, context.source), context);
    });
  };
  const rawOwn = (text) => {
    hasRaw = true;
    return rawJSON(text);
  };
  // The text of a bound function is "[native code]", as that of the engine's own functions, in messages too.
  const asNative = (own, name, length) => {
    const bound = bind(own, null), { prototype } = own;
    defineProperty(bound, 'name', { __proto__: null, value: name });
    defineProperty(bound, 'length', { __proto__: null, value: length });
    if (prototype === undefined) return bound;
    hidden(bound, 'prototype', prototype);
    replace(prototype, 'constructor', bound);
    return bound;
  };
  const install = (name, own, length) => replace(JSON, name, asNative(own, name, length));
  install('stringify', stringifyOwn, 3);
  install('parse', parseOwn, 2);
  install('rawJSON', rawOwn, 1);

  // ---- freezing ----

  const FROZEN = "built-ins are frozen after the script's top level has run: change them at the top level";
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
      const { set } = {
        set(own) {
          if (this === object) throw new FrozenError(FROZEN);
          defineProperty(this, key, { __proto__: null, value: own, writable: true, enumerable: true, configurable: true });
        },
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
  const provide = (name, made) => {
    const value = typeof made === 'function' ? asNative(made, name, made.length) : made;
    replace(G, name, value);
    collect(value);
    KEPT[KEPT.length] = name;
  };

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
  };

  return {
    __proto__: null, uncurry, isArray, parse, stringify, freeze, create, hidden, slice, indexOf, Text, match, withExact,
    stringifyMarked, stringifyCarefully, parseMarked, noticeCircle, beginCalls, SPACES, wallClock, seal, call, replace, provide,
    intrinsic: collect, asNative, FROZEN,
  };
})();
