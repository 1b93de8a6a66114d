// Defines `atob`, `btoa`, `TextEncoder`, `TextDecoder` and `structuredClone` for scripts, as the web standards specify.
((helpers) => {
  'use strict';
  const { uncurry, isArray, provide, getter, tag, kindOf, typedName, lengthOf, slice, match, NativeString, hidden } = helpers;
  const { defineProperty, getPrototypeOf, keys: keysOf } = Object, { apply } = Reflect, isError = Error.isError, NativeError = Error;
  const Bytes = Uint8Array, Units = Uint16Array, NativeTypeError = TypeError, NativeRangeError = RangeError, NativeArray = Array, NativeMap = Map;
  const NativeSet = Set, NativeDate = Date, NativeRegExp = RegExp, NativeView = DataView, toObject = Object, { isView } = ArrayBuffer;
  const Typed = getPrototypeOf(Bytes.prototype), isDetached = getter(ArrayBuffer.prototype, 'detached');
  const bufferOf = getter(Typed, 'buffer'), offsetOf = getter(Typed, 'byteOffset'), sizeOf = getter(Typed, 'byteLength');
  const copyInto = uncurry(Typed.set), transfer = uncurry(ArrayBuffer.prototype.transfer);
  const viewBuffer = getter(DataView.prototype, 'buffer'), viewOffset = getter(DataView.prototype, 'byteOffset');
  const viewSize = getter(DataView.prototype, 'byteLength'), bufferSize = getter(ArrayBuffer.prototype, 'byteLength');
  const codeAt = uncurry(String.prototype.charCodeAt), isWellFormed = uncurry(String.prototype.isWellFormed);
  const toWellFormed = uncurry(String.prototype.toWellFormed), lowerCase = uncurry(String.prototype.toLowerCase);
  const { fromCharCode } = String, fromBase64 = Bytes.fromBase64, toBase64 = uncurry(Bytes.prototype.toBase64);
  const percentEncode = escape, decodePercent = decodeURIComponent;

  class DOMException extends Error {
    constructor(message, name, code) {
      super(message);
      hidden(this, 'name', name);
      hidden(this, 'code', code);
    }
  }
  const argument = (values, what) => {
    if (values.length === 0) throw new NativeTypeError(what + ' takes an argument');
    return values[0];
  };
  const optionsOf = (options) => {
    if (options === undefined || options === null) return {};
    if (typeof options !== 'object' && typeof options !== 'function') throw new NativeTypeError('options must be an object');
    return options;
  };

  // ---- bytes and texts ----

  const CHUNK_UNITS = 4096;
  const textOfUnits = (array, Kind, width) => {
    const buffer = bufferOf(array), start = offsetOf(array), length = lengthOf(array);
    let text = '';
    for (let i = 0; i < length; i += CHUNK_UNITS) {
      text += apply(fromCharCode, null, new Kind(buffer, start + i * width, length - i < CHUNK_UNITS ? length - i : CHUNK_UNITS));
    }
    return text;
  };
  const binaryText = (bytes) => textOfUnits(bytes, Bytes, 1);
  const badCharacter = (message) => new DOMException(message, 'InvalidCharacterError', 5);
  const BEYOND_LATIN1 = /[^\0-\xff]/, BEYOND_ASCII = /[^\0-\x7f]/;
  const { btoa, atob } = {
    btoa(data) {
      const text = `${argument(arguments, 'btoa')}`, bytes = new Bytes(text.length);
      if (match(BEYOND_LATIN1, text) !== null) throw badCharacter('btoa: the text has characters outside of Latin-1');
      for (let i = 0; i < text.length; i++) bytes[i] = codeAt(text, i);
      return toBase64(bytes);
    },
    atob(data) {
      const text = `${argument(arguments, 'atob')}`;
      let bytes = null;
      try { bytes = fromBase64(text); } catch { throw badCharacter('atob: the text is not correctly encoded as base64'); }
      return binaryText(bytes);
    },
  };

  // Writes a text as UTF-8 as far as whole characters fit. Returns the number of units read and of bytes written.
  const writeUtf8 = (text, bytes, room) => {
    let read = 0, at = 0;
    for (; read < text.length; read++) {
      const unit = codeAt(text, read);
      if (unit < 0x80) {
        if (at >= room) break;
        bytes[at++] = unit;
      } else if (unit < 0x800) {
        if (at + 2 > room) break;
        bytes[at++] = 0xc0 | (unit >> 6);
        bytes[at++] = 0x80 | (unit & 0x3f);
      } else if (unit >= 0xd800 && unit < 0xdc00) {
        if (at + 4 > room) break;
        const code = 0x10000 + ((unit & 0x3ff) << 10) + (codeAt(text, ++read) & 0x3ff);
        bytes[at++] = 0xf0 | (code >> 18);
        bytes[at++] = 0x80 | ((code >> 12) & 0x3f);
        bytes[at++] = 0x80 | ((code >> 6) & 0x3f);
        bytes[at++] = 0x80 | (code & 0x3f);
      } else {
        if (at + 3 > room) break;
        bytes[at++] = 0xe0 | (unit >> 12);
        bytes[at++] = 0x80 | ((unit >> 6) & 0x3f);
        bytes[at++] = 0x80 | (unit & 0x3f);
      }
    }
    return { read, written: at };
  };
  const wellFormed = (value) => {
    const text = `${value}`;
    return isWellFormed(text) ? text : toWellFormed(text);
  };
  class TextEncoder {
    #isEncoder = true;
    get encoding() { return this.#isEncoder && 'utf-8'; }
    encode(value = '') {
      if (!this.#isEncoder) return null;
      const text = wellFormed(value), room = text.length * 3, bytes = new Bytes(room);
      const { written } = writeUtf8(text, bytes, room), exact = new Bytes(written);
      copyInto(exact, new Bytes(bufferOf(bytes), 0, written));
      return exact;
    }
    encodeInto(value, bytes) {
      if (!this.#isEncoder || typedName(bytes) !== 'Uint8Array') throw new NativeTypeError('encodeInto takes a text and a Uint8Array');
      return writeUtf8(wellFormed(value), bytes, lengthOf(bytes));
    }
  }

  // Returns the bytes of a buffer or a view without copying.
  const bytesOf = (input) => {
    if (input === undefined) return new Bytes(0);
    const kind = typeof input === 'object' && input !== null ? kindOf(input) : '';
    if (kind === 'ArrayBuffer') return isDetached(input) ? new Bytes(0) : new Bytes(input);
    if (kind === 'DataView') return new Bytes(viewBuffer(input), viewOffset(input), viewSize(input));
    if (!isView(input)) throw new NativeTypeError('decode takes an ArrayBuffer, a typed array or a DataView');
    return isDetached(bufferOf(input)) ? new Bytes(0) : new Bytes(bufferOf(input), offsetOf(input), sizeOf(input));
  };
  const skipBytes = (bytes, count) => new Bytes(bufferOf(bytes), offsetOf(bytes) + count, lengthOf(bytes) - count);
  const REPLACEMENT = '\ufffd';
  // Decodes UTF-8 as the Encoding Standard does: each maximal invalid sequence becomes one replacement character.
  const utf8WithReplacements = (bytes) => {
    const length = lengthOf(bytes);
    let text = '', code = 0, missing = 0, lower = 0x80, upper = 0xbf;
    for (let i = 0; i < length; i++) {
      const byte = bytes[i];
      if (missing > 0) {
        if (byte >= lower && byte <= upper) {
          code = (code << 6) | (byte & 0x3f);
          lower = 0x80; upper = 0xbf; missing -= 1;
          if (missing === 0) text += code < 0x10000 ? fromCharCode(code) : fromCharCode(0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
          continue;
        }
        text += REPLACEMENT;
        lower = 0x80; upper = 0xbf; missing = 0;
      }
      if (byte < 0x80) text += fromCharCode(byte);
      else if (byte >= 0xc2 && byte <= 0xdf) { missing = 1; code = byte & 0x1f; }
      else if (byte >= 0xe0 && byte <= 0xef) {
        missing = 2; code = byte & 0xf;
        if (byte === 0xe0) lower = 0xa0;
        if (byte === 0xed) upper = 0x9f;
      } else if (byte >= 0xf0 && byte <= 0xf4) {
        missing = 3; code = byte & 0x7;
        if (byte === 0xf0) lower = 0x90;
        if (byte === 0xf4) upper = 0x8f;
      } else text += REPLACEMENT;
    }
    return missing > 0 ? text + REPLACEMENT : text;
  };
  const notValid = (encoding) => new NativeTypeError('the bytes are not valid ' + encoding);
  const decodeUtf8 = (bytes, fatal) => {
    const binary = binaryText(bytes);
    if (match(BEYOND_ASCII, binary) === null) return binary;
    // percentEncode writes a byte as %XX, and decodePercent decodes the bytes as UTF-8, or throws.
    try { return decodePercent(percentEncode(binary)); } catch { /* not valid */ }
    if (fatal) throw notValid('utf-8');
    return utf8WithReplacements(bytes);
  };
  const decodeUtf16 = (bytes, fatal) => {
    const size = lengthOf(bytes), units = new Units(size >> 1), text = textOfUnits(copied(units, bytes), Units, 2);
    const last = size > 1 ? codeAt(text, text.length - 1) : 0, isCut = size % 2 === 1;
    if (fatal && (isCut || !isWellFormed(text))) throw notValid('utf-16le');
    return toWellFormed(text) + (isCut && (last & 0xfc00) !== 0xd800 ? REPLACEMENT : '');
  };
  // Copies bytes into 16-bit units; both the bytes and the machine are little-endian.
  const copied = (units, bytes) => {
    copyInto(new Bytes(bufferOf(units)), new Bytes(bufferOf(bytes), offsetOf(bytes), lengthOf(units) * 2));
    return units;
  };
  // The characters of windows-1252 for the bytes 0x80 to 0x9f.
  const WINDOWS_1252_C1 = '\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f' +
    '\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178';
  const decodeWindows1252 = (bytes) => {
    const binary = binaryText(bytes);
    if (match(/[\x80-\x9f]/, binary) === null) return binary;
    let text = '';
    for (let i = 0; i < binary.length; i++) {
      const byte = bytes[i];
      text += byte >= 0x80 && byte <= 0x9f ? WINDOWS_1252_C1[byte - 0x80] : binary[i];
    }
    return text;
  };
  const ENCODINGS = {
    __proto__: null,
    'utf-8': { decode: decodeUtf8, bom: [0xef, 0xbb, 0xbf], labels: 'utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8' },
    'utf-16le': { decode: decodeUtf16, bom: [0xff, 0xfe], labels: 'utf-16le utf-16 csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff' },
    'windows-1252': {
      decode: decodeWindows1252, bom: null,
      labels: 'windows-1252 ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 ' +
        'iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252',
    },
  };
  const LABELS = { __proto__: null };
  for (const name of Object.keys(ENCODINGS)) for (const label of ENCODINGS[name].labels.split(' ')) LABELS[label] = name;
  const startsWithBom = (bytes, bom) => {
    for (let i = 0; i < bom.length; i++) if (bytes[i] !== bom[i]) return false;
    return true;
  };
  const labelOf = (value) => {
    const label = `${value}`, name = LABELS[lowerCase(match(/^[\t\n\f\r ]*(.*?)[\t\n\f\r ]*$/s, label)[1])];
    if (name === undefined) throw new NativeRangeError('TextDecoder: no encoding ' + slice(label, 0, 100) + ': there are utf-8, utf-16le and windows-1252 (latin1)');
    return name;
  };
  class TextDecoder {
    #encoding; #fatal; #ignoreBOM;
    constructor(label = 'utf-8', options = undefined) {
      this.#encoding = labelOf(label);
      const { fatal, ignoreBOM } = optionsOf(options);
      this.#fatal = !!fatal; this.#ignoreBOM = !!ignoreBOM;
    }
    get encoding() { return this.#encoding; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(input = undefined, options = undefined) {
      const { decode, bom } = ENCODINGS[this.#encoding], bytes = bytesOf(input);
      if (optionsOf(options).stream) throw new NativeTypeError('TextDecoder does not keep a part for the next call: decode the whole without { stream: true }');
      return decode(!this.#ignoreBOM && bom !== null && startsWithBom(bytes, bom) ? skipBytes(bytes, bom.length) : bytes, this.#fatal);
    }
  }
  for (const Coder of [TextEncoder, TextDecoder]) {
    defineProperty(Coder.prototype, Symbol.toStringTag, { __proto__: null, value: Coder.name, configurable: true });
  }

  // ---- structuredClone ----

  const refuseClone = (value) => {
    let text = typeof value;
    try { text = typeof value === 'object' ? '#<' + tag(value) + '>' : NativeString(value); } catch { /* the message then contains the type */ }
    throw new DOMException(slice(text, 0, 100) + ' could not be cloned', 'DataCloneError', 25);
  };
  const mapGet = uncurry(NativeMap.prototype.get), mapSet = uncurry(NativeMap.prototype.set), mapHas = uncurry(NativeMap.prototype.has);
  const eachOfMap = uncurry(NativeMap.prototype.forEach), eachOfSet = uncurry(NativeSet.prototype.forEach), addTo = uncurry(NativeSet.prototype.add);
  const isEnumerable = uncurry(Object.prototype.propertyIsEnumerable), hasOwn = Object.hasOwn, timeOf = uncurry(NativeDate.prototype.getTime);
  const sourceOf = getter(NativeRegExp.prototype, 'source'), flagsOf = getter(NativeRegExp.prototype, 'flags');
  const ERRORS = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
  const KINDS = { __proto__: null };
  for (const Kind of [Bytes, Int8Array, Uint8ClampedArray, Units, Int16Array, Uint32Array, Int32Array, Float16Array, Float32Array,
    Float64Array, BigInt64Array, BigUint64Array]) KINDS[Kind.name] = Kind;
  const UNCLONEABLE = /^(Symbol|Promise|WeakMap|WeakSet|(Async)?Generator|.* Iterator|Iterator Helper|Intl\..*|Temporal\..*)$/;

  const define = (object, key, value, enumerable) =>
    defineProperty(object, key, { __proto__: null, value, writable: true, enumerable, configurable: true });
  const cloneMembers = (value, result, memory) => {
    for (let i = 0, keys = keysOf(value); i < keys.length; i++) {
      const key = keys[i];
      if (!isEnumerable(value, key)) continue;
      const member = clone(value[key], memory);
      if (key in result) define(result, key, member, true); else result[key] = member;
    }
    return result;
  };
  const cloneError = (value, memory) => {
    const name = value.name, Kind = ERRORS[typeof name === 'string' ? name : 'Error'] ?? NativeError;
    const result = registerClone(new Kind(), value, memory), stack = value.stack;
    if (hasOwn(value, 'message')) define(result, 'message', `${value.message}`, false);
    define(result, 'stack', typeof stack === 'string' ? stack : '', false);
    if (hasOwn(value, 'cause')) define(result, 'cause', clone(value.cause, memory), false);
    return result;
  };
  const cloneView = (value, kind, memory) => registerClone(
    kind === 'DataView' ? new NativeView(clone(viewBuffer(value), memory), viewOffset(value), viewSize(value))
      : new KINDS[kind](clone(bufferOf(value), memory), offsetOf(value), lengthOf(value)), value, memory);
  const cloneMap = (value, memory) => {
    const result = registerClone(new NativeMap(), value, memory), parts = [];
    eachOfMap(value, (member, key) => { parts[parts.length] = key; parts[parts.length] = member; });
    for (let i = 0; i < parts.length; i += 2) mapSet(result, clone(parts[i], memory), clone(parts[i + 1], memory));
    return result;
  };
  const cloneSet = (value, memory) => {
    const result = registerClone(new NativeSet(), value, memory), parts = [];
    eachOfSet(value, (member) => { parts[parts.length] = member; });
    for (let i = 0; i < parts.length; i++) addTo(result, clone(parts[i], memory));
    return result;
  };
  const cloneBuffer = (value) => {
    if (isDetached(value)) refuseClone(value);
    const bytes = new Bytes(bufferSize(value));
    copyInto(bytes, new Bytes(value));
    return bufferOf(bytes);
  };
  const registerClone = (result, value, memory) => {
    mapSet(memory, value, result);
    return result;
  };
  const valueOf = { __proto__: null };
  for (const Kind of [Boolean, Number, String, BigInt]) valueOf[Kind.name] = uncurry(Kind.prototype.valueOf);
  const cloneObject = (value, memory) => {
    if (isArray(value)) return cloneMembers(value, registerClone(new NativeArray(value.length), value, memory), memory);
    if (isError(value)) return cloneError(value, memory);
    const kind = kindOf(value);
    if (kind === '') return match(UNCLONEABLE, tag(value)) === null ? cloneMembers(value, registerClone({}, value, memory), memory) : refuseClone(value);
    if (isView(value)) return cloneView(value, kind, memory);
    if (kind === 'Map') return cloneMap(value, memory);
    if (kind === 'Set') return cloneSet(value, memory);
    if (kind === 'Date') return registerClone(new NativeDate(timeOf(value)), value, memory);
    if (kind === 'RegExp') return registerClone(new NativeRegExp(sourceOf(value), flagsOf(value)), value, memory);
    if (kind === 'ArrayBuffer') return registerClone(cloneBuffer(value), value, memory);
    return kind === 'Symbol' ? refuseClone(value) : registerClone(toObject(valueOf[kind](value)), value, memory);
  };
  const clone = (value, memory) => {
    if (typeof value === 'function' || typeof value === 'symbol') return refuseClone(value);
    if (typeof value !== 'object' || value === null) return value;
    return mapHas(memory, value) ? mapGet(memory, value) : cloneObject(value, memory);
  };
  const transferAll = (list, memory) => {
    if (list === undefined) return;
    if (!isArray(list)) throw new NativeTypeError('structuredClone: transfer takes an array');
    for (let i = 0; i < list.length; i++) {
      if (kindOf(list[i]) !== 'ArrayBuffer' || mapHas(memory, list[i]) || isDetached(list[i])) refuseClone(list[i]);
      mapSet(memory, list[i], transfer(list[i]));
    }
  };
  const { structuredClone } = {
    structuredClone(value, options = undefined) {
      const memory = new NativeMap(), given = argument(arguments, 'structuredClone');
      transferAll(optionsOf(options).transfer, memory);
      return clone(given, memory);
    },
  };

  for (const [name, value] of Object.entries({ atob, btoa, TextEncoder, TextDecoder, structuredClone })) provide(name, value);
  helpers.collectIntrinsic(DOMException);
});
