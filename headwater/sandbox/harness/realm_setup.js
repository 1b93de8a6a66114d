// Prepares a realm before its script is loaded: removes forbidden globals, derives the time and random numbers from the
// record, and lets big integers survive JSON. Evaluates to `helpers`, an object of helper functions, to which the other
// files add theirs.
// The harness uses private copies of built-ins, because the script may replace any built-in that it can see.
(() => {
  'use strict';
  const globalObject = globalThis;
  const uncurry = (f) => Function.prototype.call.bind(f);
  const { ownKeys, getOwnPropertyDescriptor: descriptor, getPrototypeOf, construct } = Reflect;
  const { defineProperty, freeze, create, hasOwn, preventExtensions } = Object;
  const isArray = Array.isArray, isError = Error.isError, parse = JSON.parse, stringify = JSON.stringify, rawJSON = JSON.rawJSON, isRaw = JSON.isRawJSON;
  const NativeString = String, NativeBigInt = BigInt, ObjectPrototype = Object.prototype, ArrayPrototype = Array.prototype, NativeTypeError = TypeError;
  const indexOf = uncurry(String.prototype.indexOf), lastIndexOf = uncurry(String.prototype.lastIndexOf), slice = uncurry(String.prototype.slice);
  const endsWith = uncurry(String.prototype.endsWith);
  const startsWith = uncurry(String.prototype.startsWith), charCodeAt = uncurry(String.prototype.charCodeAt);
  const bigToText = uncurry(BigInt.prototype.toString), bigValue = uncurry(BigInt.prototype.valueOf), invoke = uncurry(Function.prototype.call);
  const match = uncurry(RegExp.prototype.exec), imul = Math.imul, bind = uncurry(Function.prototype.bind);

  const hidden = (object, key, value) => defineProperty(object, key, { __proto__: null, value });
  const replace = (object, key, value) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, configurable: true });

  // ---- globals of a script ----

  const KEPT_SCRIPT_GLOBALS = ('Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date ' +
    'Promise RegExp Error AggregateError EvalError RangeError ReferenceError SuppressedError SyntaxError TypeError ' +
    'URIError globalThis JSON Math Intl ArrayBuffer Uint8Array Int8Array Uint16Array Int16Array Uint32Array ' +
    'Int32Array BigUint64Array BigInt64Array Uint8ClampedArray Float16Array Float32Array Float64Array DataView Map ' +
    'BigInt Set Iterator WeakMap WeakSet Proxy Reflect decodeURI decodeURIComponent encodeURI encodeURIComponent ' +
    'escape unescape eval isFinite isNaN Temporal DisposableStack AsyncDisposableStack').split(' ');
  for (const key of ownKeys(globalObject)) if (!KEPT_SCRIPT_GLOBALS.includes(key)) delete globalObject[key];
  // `RegExp.$1` and similar properties would show one record's last match to the next record.
  for (const key of ownKeys(RegExp)) if (!['length', 'name', 'prototype', 'escape', Symbol.species].includes(key)) delete RegExp[key];

  // ---- time and random numbers ----

  // The state of the current call of the script, which records.js sets and all files read.
  //   row: the index of the record, -1 between records; columns(): the columns of the segment, as runs of equal values;
  //   seeded: whether the record has asked for a random number; lines: the printed lines, null for none;
  //   writing: how BigInt.prototype.toJSON serialises at present; marks: the number of marked BigInts in the current output;
  //   useSlowPath: whether to use `stringifySlowPath`.
  const IDLE = 0, AS_DIGITS = 1, AS_MARKED = 2, AS_BIGINT = 3;
  const currentCall = { row: -1, columns: null, seeded: false, lines: null, writing: IDLE, marks: 0, useSlowPath: false };
  const valueAt = (column, row) => {
    const values = column[0], ends = column[1];
    let first = 0, last = ends.length - 1;
    while (first < last) {
      const middle = (first + last) >> 1;
      if (row < ends[middle]) last = middle; else first = middle + 1;
    }
    return values[first];
  };
  const now = () => currentCall.columns === null ? noteNondeterminism('time') : valueAt(currentCall.columns().timestamps, currentCall.row);
  // The column of offsets contains each offset minus its row, which gives long runs of equal values.
  const position = ({ topic, partitions, offsets, indexes }, row) =>
    topic + '/' + valueAt(partitions, row) + '/' + (valueAt(offsets, row) + row) + '/' + valueAt(indexes, row);

  // In a child that validates scripts: the first use of the time or a random number at the top level.
  const NativeError = Error;
  currentCall.isWatched = false; currentCall.nondeterminism = null;
  const noteNondeterminism = (what) => {
    if (currentCall.isWatched && currentCall.nondeterminism === null) currentCall.nondeterminism = { what, stack: new NativeError().stack };
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
  replace(globalObject, 'Date', FixedDate);

  const formatter = Intl.DateTimeFormat.prototype;
  const boundFormat = uncurry(descriptor(formatter, 'format').get), toParts = uncurry(formatter.formatToParts);
  defineProperty(formatter, 'format', {
    get() { const format = boundFormat(this); return (date) => format(date === undefined ? now() : date); },
  });
  replace(formatter, 'formatToParts', function (date) { return toParts(this, date === undefined ? now() : date); });

  const fromMs = Temporal.Instant.fromEpochMilliseconds, toZoned = uncurry(Temporal.Instant.prototype.toZonedDateTimeISO);
  const zoned = (zone = 'UTC') => toZoned(fromMs(now()), zone);
  const zonedMethods = { __proto__: null };
  for (const name of ['toPlainDateTime', 'toPlainDate', 'toPlainTime']) zonedMethods[name] = uncurry(Temporal.ZonedDateTime.prototype[name]);
  replace(Temporal.Now, 'instant', () => fromMs(now()));
  replace(Temporal.Now, 'zonedDateTimeISO', zoned);
  replace(Temporal.Now, 'plainDateTimeISO', (zone) => zonedMethods.toPlainDateTime(zoned(zone)));
  replace(Temporal.Now, 'plainDateISO', (zone) => zonedMethods.toPlainDate(zoned(zone)));
  replace(Temporal.Now, 'plainTimeISO', (zone) => zonedMethods.toPlainTime(zoned(zone)));

  // xoshiro128**, seeded with a hash of the record's position at the first call of Math.random.
  let a = 0, b = 0, c = 0, d = 0;
  const rotate = (x, n) => (x << n) | (x >>> (32 - n));
  // Returns a 32-bit hash of a text. Different values of `start` give independent hashes.
  const hashText = (text, start) => {
    let hash = start;
    for (let i = 0; i < text.length; i++) hash = imul(hash ^ charCodeAt(text, i), 0x01000193);
    hash = imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return (hash ^ (hash >>> 16)) | 0;
  };
  // Near a stack overflow any function call may throw. So all calls come first, and the generator's state is updated
  // afterwards.
  const nextRandom = () => {
    const result = imul(rotate(imul(b, 5), 7), 9), shifted = b << 9, turned = rotate(d ^ b, 11);
    c ^= a; d ^= b; b ^= c; a ^= d; c ^= shifted; d = turned;
    return result >>> 0;
  };
  replace(Math, 'random', () => {
    if (!currentCall.seeded) {
      if (currentCall.columns === null) noteNondeterminism('random');
      const seed = currentCall.columns === null ? '' : position(currentCall.columns(), currentCall.row);
      const first = hashText(seed, 0x811c9dc5), second = hashText(seed, 0x9e3779b9), third = hashText(seed, 0x7f4a7c15);
      d = hashText(seed, 0x2545f491) | 1;
      a = first; b = second; c = third;
      currentCall.seeded = true;
    }
    return ((nextRandom() >>> 5) * 67108864 + (nextRandom() >>> 6)) / 9007199254740992;
  });

  // ---- numbers ----

  const MAX_SAFE_INTEGER = 9007199254740991;
  const exceedsDouble = (value) => value > MAX_SAFE_INTEGER || value < -MAX_SAFE_INTEGER;
  // Whether a text contains a member's name exactly once and without escapes. A quote inside a JSON string has a backslash
  // before it, so a name of letters and digits between two quotes can't be a part of another string.
  const isUnambiguous = (text, name, opening) =>
    indexOf(text, name) === opening && indexOf(text, name, opening + name.length) < 0 && indexOf(text, '\\u') < 0;
  const LITERAL = /^[ \t\n\r]*:[ \t\n\r]*(-?\d{16,90})[ \t\n\r]*[,}]/, NAME = /^\w{1,100}$/, LITERAL_UNITS = 100;
  const restoreInteger = (object, key, text) => {
    const name = '"' + key + '"', opening = indexOf(text, name), end = opening + name.length;
    if (opening < 0 || match(NAME, key) === null || !isUnambiguous(text, name, opening)) return false;
    const found = match(LITERAL, slice(text, end, end + LITERAL_UNITS));
    if (found === null) return false;
    object[key] = NativeBigInt(found[1]);
    return true;
  };
  const isDigit = (unit) => unit >= '0' && unit <= '9', MIN_LONG_DIGITS = 16;
  // Returns the integer whose digits begin at an offset, or null if no integer of 16 digits or more is there. The offsets count
  // bytes. After non-ASCII characters a byte offset is larger than the string index, so it may point at another number,
  // or past the last long number.
  const integerAt = (text, at) => {
    const comma = indexOf(text, ',', at), end = comma < 0 ? indexOf(text, '}', at) : comma;
    if (end - at < MIN_LONG_DIGITS || end - at > LITERAL_UNITS || !isDigit(text[at]) || !isDigit(text[at + MIN_LONG_DIGITS - 1])) return null;
    try { return NativeBigInt(slice(text, text[at - 1] === '-' ? at - 1 : at, end)); } catch { return null; }
  };
  const BEFORE = /^"(\w{1,100})"[ \t\n\r]*:[ \t\n\r]*-?$/;
  const memberBefore = (text, at) => {
    const opening = lastIndexOf(text, '"', lastIndexOf(text, '"', at) - 1), before = slice(text, opening, at);
    const found = match(BEFORE, before);
    return found === null ? null : { key: found[1], name: '"' + found[1] + '"', before };
  };
  // Replaces the integers whose digits begin at these offsets by BigInts. Returns false when the result would be ambiguous.
  // The n-th long integer of a record usually belongs to the same member as in the record before.
  const longIntegerMembers = [];
  const restoreAtOffsets = (record, text, offsets) => {
    for (let i = 0; i < offsets.length; i++) {
      const at = offsets[i];
      let member = i < longIntegerMembers.length ? longIntegerMembers[i] : null;
      if (member === null || !endsWith(text, member.before, at)) {
        member = memberBefore(text, at);
        if (member === null) return false;
        longIntegerMembers[i < longIntegerMembers.length ? i : longIntegerMembers.length] = member;
      }
      const { key, name, before } = member, value = integerAt(text, at);
      if (value === null || !isUnambiguous(text, name, at - before.length) || !hasOwn(record, key)) return false;
      if (exceedsDouble(record[key])) record[key] = value;
    }
    return true;
  };
  // Replaces each integer that a double can't hold by a BigInt. Returns false when the text must be parsed again.
  // Most values are strings, which need no call. Arrays have index loops, because `for in` makes the JIT deoptimise.
  const restoreByWalking = (object, text) => {
    if (isArray(object)) {
      for (let i = 0; i < object.length; i++) {
        const value = object[i];
        if (typeof value === 'number' ? exceedsDouble(value) : typeof value === 'object' && value !== null && !restoreByWalking(value, text)) return false;
      }
    } else {
      for (const key in object) {
        const value = object[key];
        if (typeof value === 'string') continue;
        if (typeof value === 'number') {
          if (exceedsDouble(value) && !restoreInteger(object, key, text)) return false;
        } else if (typeof value === 'object' && value !== null && !restoreByWalking(value, text)) return false;
      }
    }
    return true;
  };
  const isInteger = (source) => indexOf(source, '.') < 0 && indexOf(source, 'e') < 0 && indexOf(source, 'E') < 0;
  const bigIntReviver = (key, value, { source }) => typeof value === 'number' && exceedsDouble(value) && isInteger(source) ? NativeBigInt(source) : value;
  // Returns a parsed record with a BigInt for each integer that a double can't hold. offsets: where the numbers of 16
  // digits or more begin in an ASCII text. If the fast methods are ambiguous, the text is parsed again with a reviver. If
  // the script gave all objects enumerable properties, which `restoreByWalking` would visit, that method is left out.
  let walkable = true;
  const restoreLongIntegers = (record, text, offsets) =>
    restoreAtOffsets(record, text, offsets) || (walkable && restoreByWalking(record, text)) ? record : parse(text, bigIntReviver);

  // ---- numbers between scripts ----

  // A script whose output goes to another script writes each BigInt as `<digits>e0`, a form that no Number has, and one
  // space before the record for each BigInt, at most MAX_MARKS. So the next script knows which numbers are BigInts, and
  // which records have none.
  const SPACES = '                ', MAX_MARKS = SPACES.length, MARK = 'e0';
  const INTEGER = /^-?\d+$/;
  const markedLiteral = (digits) => {
    currentCall.marks += 1;
    return rawJSON(digits + MARK);
  };
  const markedReviver = (key, value, { source }) => typeof value === 'number' && endsWith(source, MARK) ? NativeBigInt(slice(source, 0, -2)) : value;
  // By the number of BigInts in a record: the names of the members that were BigInts in the last such record; null if a
  // nested value was one.
  const markedMemberNames = [];
  const namesOfBigInts = (record, count) => {
    const names = [];
    for (let i = 0, keys = ownKeys(record); i < keys.length; i++) {
      if (typeof record[keys[i]] === 'bigint') names[names.length] = keys[i];
    }
    for (let i = 0; i < names.length; i++) if (match(NAME, names[i]) === null) return null;
    return names.length === count ? names : null;
  };
  // Replaces a member by its BigInt if the text contains its name exactly once.
  const restoreMarked = (record, key, text) => {
    const name = '"' + key + '":', opening = indexOf(text, name), first = opening + name.length;
    if (opening < 0 || !hasOwn(record, key) || indexOf(text, name, first) >= 0) return false;
    const end = indexOf(text, MARK, first), behind = text[end + MARK.length];
    if (end < 0 || (behind !== ',' && behind !== '}')) return false;
    try { record[key] = NativeBigInt(slice(text, first, end)); } catch { return false; }
    return true;
  };
  const restoreAllMarked = (record, text, names) => {
    for (let i = 0; i < names.length; i++) if (!restoreMarked(record, names[i], text)) return false;
    return true;
  };
  const parseMarked = (text) => {
    let count = 1;
    while (text[count] === ' ') count++;
    const names = count < markedMemberNames.length ? markedMemberNames[count] : null;
    if (names !== null) {
      const record = parse(text);
      if (restoreAllMarked(record, text, names)) return record;
    }
    const record = parse(text, markedReviver);
    while (markedMemberNames.length <= count) markedMemberNames[markedMemberNames.length] = null;
    markedMemberNames[count] = count < MAX_MARKS ? namesOfBigInts(record, count) : null;
    return record;
  };
  // hasRaw: whether the script itself has made raw JSON. From then on, a raw integer that a double can't hold counts as a
  // BigInt, and any other raw number as a Number.
  let hasRaw = false;
  const markRaw = (key, value) => {
    if (typeof value === 'bigint') return markedLiteral(bigToText(value));
    if (!isRaw(value)) return value;
    const text = value.rawJSON, number = parse(text);
    if (typeof number !== 'number') return value;
    return exceedsDouble(number) && match(INTEGER, text) !== null ? markedLiteral(text) : number;
  };
  const stringifyMarked = (value) => {
    currentCall.marks = 0;
    currentCall.writing = hasRaw ? AS_BIGINT : AS_MARKED;
    try {
      return hasRaw ? stringify(value, markRaw) : currentCall.useSlowPath ? stringifySlowPath(value) : stringify(value);
    } finally { currentCall.writing = IDLE; }
  };
  replace(BigInt.prototype, 'toJSON', {
    toJSON() {
      const { writing } = currentCall;
      if (writing === AS_BIGINT) return bigValue(this);
      if (writing === AS_MARKED) return markedLiteral(bigToText(this));
      if (writing === IDLE) hasRaw = true;
      return rawJSON(bigToText(this));
    },
  }.toJSON);

  // ---- a script's own JSON ----

  const TOO_DEEP = 'Maximum call stack size exceeded', CIRCLE = 'Converting circular structure to JSON';
  const messageOf = (error) => {
    try { return isError(error) ? NativeString(error.message) : ''; } catch { return ''; }
  };
  // V8's fast path of JSON.stringify follows a circular reference thousands of times before it throws. A getter forces
  // the slow path, which detects the cycle at once but overflows the stack at a smaller depth.
  const stringifySlowPath = (value) => {
    try {
      const text = stringify({ __proto__: null, get ''() { return value; } });
      return text === '{}' ? undefined : slice(text, 4, -1);
    } catch (error) {
      if (messageOf(error) === TOO_DEEP) return stringify(value);
      throw error;
    }
  };
  let hasCircularReferences = false;
  const noteCircularReference = (message) => { if (startsWith(message, CIRCLE)) hasCircularReferences = currentCall.useSlowPath = true; };
  const beginCalls = (isAlone) => {
    currentCall.useSlowPath = isAlone || hasCircularReferences;
    currentCall.writing = IDLE;
  };
  const withRawBigInts = (replacer) => function (key, value) {
    const replaced = invoke(replacer, this, key, value);
    return typeof replaced === 'bigint' ? rawJSON(bigToText(replaced)) : replaced;
  };
  const stringifyForScript = (value, replacer, space) => {
    const { writing } = currentCall, hasReplacer = typeof replacer === 'function';
    currentCall.writing = hasReplacer ? AS_BIGINT : AS_DIGITS;
    try {
      if (hasReplacer) return stringify(value, withRawBigInts(replacer), space);
      return currentCall.useSlowPath && replacer === undefined && space === undefined ? stringifySlowPath(value) : stringify(value, replacer, space);
    } catch (error) {
      noteCircularReference(messageOf(error));
      throw error;
    } finally { currentCall.writing = writing; }
  };
  const LONG_INTEGER = /[:,[\s-]\d{16}/;
  const keepDigits = (value, source) =>
    typeof value === 'number' && exceedsDouble(value) && isInteger(source) && NativeString(value) !== source ? NativeBigInt(source) : value;
  const parseForScript = (text, reviver) => {
    const source = `${text}`;
    if (!isDigit(source[0]) && match(LONG_INTEGER, source) === null) return parse(source, reviver);
    if (typeof reviver !== 'function') return parse(source, (key, value, context) => keepDigits(value, context.source));
    return parse(source, function (key, value, context) {
      return invoke(reviver, this, key, keepDigits(value, context.source), context);
    });
  };
  const rawJSONForScript = (text) => {
    hasRaw = true;
    return rawJSON(text);
  };
  // The source text of a bound function is "[native code]", like that of V8's own functions, also in error messages.
  const asNative = (f, name, length) => {
    const bound = bind(f, null), { prototype } = f;
    defineProperty(bound, 'name', { __proto__: null, value: name });
    defineProperty(bound, 'length', { __proto__: null, value: length });
    if (prototype === undefined) return bound;
    hidden(bound, 'prototype', prototype);
    replace(prototype, 'constructor', bound);
    return bound;
  };
  const install = (name, f, length) => replace(JSON, name, asNative(f, name, length));
  install('stringify', stringifyForScript, 3);
  install('parse', parseForScript, 2);
  install('rawJSON', rawJSONForScript, 1);

  // ---- freezing ----

  const FROZEN = "built-ins are frozen after the script's top level has run: change them at the top level";
  const intrinsics = [], known = new Set();
  const collectIntrinsic = (value) => {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || known.has(value)) return;
    known.add(value);
    intrinsics[intrinsics.length] = value;
    collectIntrinsic(getPrototypeOf(value));
    for (const key of ownKeys(value)) {
      const { value: inner, get, set } = descriptor(value, key);
      collectIntrinsic(inner); collectIntrinsic(get); collectIntrinsic(set);
    }
  };
  // Avoids the override mistake of JavaScript: after the freeze, assignments to instances such as `record.toString = …`
  // and `error.name = …` must still work.
  const makeAssignable = (object) => {
    for (let i = 0, keys = ownKeys(object); i < keys.length; i++) {
      const key = keys[i], found = descriptor(object, key), value = found.value;
      if (!hasOwn(found, 'writable') || !found.writable) continue;
      const { set } = {
        set(newValue) {
          if (this === object) throw new NativeTypeError(FROZEN);
          defineProperty(this, key, { __proto__: null, value: newValue, writable: true, enumerable: true, configurable: true });
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
  const inheritedPrototypes = [ObjectPrototype, ...errors.map((error) => error.prototype)];
  const iterators = [[][Symbol.iterator](), ''[Symbol.iterator](), new Map().keys(), new Set().keys(), ''.matchAll(/a/g),
    [].values().map((x) => x), Iterator.from({ next() {} }), new Intl.Segmenter().segment('')[Symbol.iterator]()];
  const functions = [function* () {}, async function () {}, async function* () {}];
  for (const root of [...iterators, ...functions]) collectIntrinsic(getPrototypeOf(root));
  collectIntrinsic(getPrototypeOf(new Intl.Segmenter().segment('')));
  for (const key of KEPT_SCRIPT_GLOBALS) collectIntrinsic(key === 'globalThis' ? null : globalObject[key]);
  const provide = (name, implementation) => {
    const value = typeof implementation === 'function' ? asNative(implementation, name, implementation.length) : implementation;
    replace(globalObject, name, value);
    collectIntrinsic(value);
    KEPT_SCRIPT_GLOBALS[KEPT_SCRIPT_GLOBALS.length] = name;
  };

  // Does what Object.freeze does. Object.freeze on Array.prototype would disable V8's fast path for appending to any
  // array. Changing properties one by one puts the object into dictionary mode; creating an object with this prototype
  // makes it fast again.
  const freezePreservingFastElements = (object) => {
    for (let i = 0, keys = ownKeys(object); i < keys.length; i++) {
      const text = typeof keys[i] === 'string' ? keys[i] : '', found = descriptor(object, keys[i]);
      if (text !== '' && text[0] >= '0' && text[0] <= '9') throw new NativeTypeError('index properties on a prototype of all arrays');
      if (hasOwn(found, 'writable') && found.writable) defineProperty(object, keys[i], { __proto__: null, writable: false });
      defineProperty(object, keys[i], { __proto__: null, configurable: false });
    }
    preventExtensions(object);
    return create(object).none; // the lookup of a missing property makes V8 optimise the prototype
  };

  const freezeGlobal = (name) => {
    const found = descriptor(globalObject, name);
    if (found !== undefined && found.configurable) {
      defineProperty(globalObject, name, { __proto__: null, writable: false, configurable: false });
    }
  };

  // Freezes the built-ins after the script's top level, so that no record can change what another record sees of them.
  const seal = () => {
    walkable = !hasEnumerable({});
    for (let i = 0; i < inheritedPrototypes.length; i++) makeAssignable(inheritedPrototypes[i]);
    freezePreservingFastElements(ObjectPrototype);
    freezePreservingFastElements(ArrayPrototype);
    for (let i = 0; i < intrinsics.length; i++) {
      if (intrinsics[i] !== ObjectPrototype && intrinsics[i] !== ArrayPrototype) freeze(intrinsics[i]);
    }
    for (let i = 0; i < KEPT_SCRIPT_GLOBALS.length; i++) freezeGlobal(KEPT_SCRIPT_GLOBALS[i]);
  };

  return {
    __proto__: null, uncurry, isArray, parse, stringify, freeze, create, hidden, slice, indexOf, NativeString, match, restoreLongIntegers,
    stringifyMarked, stringifySlowPath, parseMarked, noteCircularReference, beginCalls, SPACES, wallClock, seal, currentCall, replace, provide,
    collectIntrinsic, asNative, FROZEN,
  };
})();
