// Defines `console` for scripts. Printed lines go to the worker's log; printing never fails a record.
((helpers) => {
  'use strict';
  const { uncurry, isArray, provide, create, slice, indexOf, match, stringify, stringifySlowPath, NativeString, currentCall, headOf } = helpers;
  const { kindOf, lengthOf } = helpers, { keys: keysOf, is, getPrototypeOf } = Object, { isView } = ArrayBuffer, isError = Error.isError;
  const NativeError = Error, Bytes = Uint8Array, ObjectPrototype = Object.prototype, toNumber = Number, { parseInt, parseFloat } = Number;
  const bigText = uncurry(BigInt.prototype.toString), regexpText = uncurry(RegExp.prototype.toString), timeOf = uncurry(Date.prototype.getTime);
  const isoText = uncurry(Date.prototype.toISOString), sourceText = uncurry(Function.prototype.toString);
  const mapEntries = uncurry(Map.prototype.entries), setValues = uncurry(Set.prototype.values), mapSize = helpers.getter(Map.prototype, 'size');
  const setSize = helpers.getter(Set.prototype, 'size'), join = uncurry(Array.prototype.join), padEnd = uncurry(String.prototype.padEnd);
  const nextEntry = uncurry(getPrototypeOf(new Map().entries()).next), nextValue = uncurry(getPrototypeOf(new Set().values()).next);
  const valueOf = { __proto__: null };
  for (const Kind of [Boolean, Number, String, BigInt, Symbol]) valueOf[Kind.name] = uncurry(Kind.prototype.valueOf);

  const MAX_LINES = 20, MAX_LINE = 1000, MAX_DEPTH = 50, MAX_CELL = 100, MAX_COLUMNS = 20;

  // ---- values as text ----

  const nameOf = (f) => {
    try { return typeof f.name === 'string' ? slice(f.name, 0, MAX_CELL) : ''; } catch { return ''; }
  };
  const showFunction = (f) => {
    const name = nameOf(f);
    return (match(/^class\b/, sourceText(f)) === null ? '[Function' : '[class') + (name === '' ? ']' : ': ' + name + ']');
  };
  const showError = (error, isInner) => {
    const { stack } = error;
    return typeof stack === 'string' && stack !== '' && !isInner ? stack : '[' + headOf(error) + ']';
  };
  // Joins items until the text is long enough. item(i) returns the text of item i, or undefined after the last one.
  const list = (opening, closing, item) => {
    let text = opening;
    for (let i = 0; text.length <= MAX_LINE; i++) {
      const itemText = item(i);
      if (itemText === undefined) return text + closing;
      text += (i === 0 ? '' : ',') + itemText;
    }
    return text;
  };
  const showMembers = (value, enclosing) => {
    const keys = keysOf(value), prototype = getPrototypeOf(value);
    const className = prototype === null || prototype === ObjectPrototype ? '' : nameOf(prototype.constructor);
    return list((className === '' || className === 'Object' ? '' : className + ' ') + '{', '}', (i) =>
      i === keys.length ? undefined : stringify(keys[i]) + ':' + show(value[keys[i]], enclosing));
  };
  const showItems = (name, value, length, enclosing) =>
    list((name === '' ? '' : name + '(' + length + ') ') + '[', ']', (i) => i === length ? undefined : show(value[i], enclosing));
  const showMap = (value, enclosing) => {
    const entries = mapEntries(value);
    return list('Map(' + mapSize(value) + ') {', '}', () => {
      const { done, value: entry } = nextEntry(entries);
      return done ? undefined : show(entry[0], enclosing) + ' => ' + show(entry[1], enclosing);
    });
  };
  const showSet = (value, enclosing) => {
    const values = setValues(value);
    return list('Set(' + setSize(value) + ') {', '}', () => {
      const { done, value: member } = nextValue(values);
      return done ? undefined : show(member, enclosing);
    });
  };
  const showKind = (value, kind, enclosing) => {
    switch (kind) {
      case 'Map': return showMap(value, enclosing);
      case 'Set': return showSet(value, enclosing);
      case 'Date': return is(timeOf(value), NaN) ? 'Invalid Date' : isoText(value);
      case 'RegExp': return regexpText(value);
      case 'ArrayBuffer': { const bytes = new Bytes(value); return showItems('ArrayBuffer', bytes, lengthOf(bytes), enclosing); }
      case 'DataView': return '[DataView]';
      default: return isView(value) ? showItems(kind, value, lengthOf(value), enclosing) : '[' + kind + ': ' + show(valueOf[kind](value), enclosing) + ']';
    }
  };
  const showObject = (value, enclosing) => {
    if (isArray(value)) return showItems('', value, value.length, enclosing);
    if (isError(value)) return showError(value, enclosing.length > 1);
    const kind = kindOf(value);
    return kind === '' ? showMembers(value, enclosing) : showKind(value, kind, enclosing);
  };
  const isEnclosing = (enclosing, value) => {
    for (let i = 0; i < enclosing.length; i++) if (enclosing[i] === value) return true;
    return false;
  };
  // enclosing: the chain of enclosing objects; null for a top-level argument.
  const show = (value, enclosing) => {
    switch (typeof value) {
      case 'string': return enclosing === null ? value : stringify(slice(value, 0, MAX_LINE));
      case 'bigint': return bigText(value) + 'n';
      case 'number': return is(value, -0) ? '-0' : NativeString(value);
      case 'function': return showFunction(value);
      case 'object': break;
      default: return NativeString(value);
    }
    if (value === null) return 'null';
    const open = enclosing ?? [];
    if (isEnclosing(open, value)) return '[Circular]';
    if (open.length === MAX_DEPTH) return '[Object]';
    open[open.length] = value;
    try { return showObject(value, open); } finally { open.length -= 1; }
  };
  const safeShow = (value) => {
    try { return show(value, null); } catch { return '[unprintable]'; }
  };

  // ---- format specifiers ----

  const asNumber = (value, convert) => {
    if (typeof value === 'bigint') return bigText(value) + 'n';
    return typeof value === 'symbol' || typeof value === 'object' ? 'NaN' : show(convert(value), null);
  };
  const asJson = (value) => NativeString(stringifySlowPath(value));
  const formatSpecifier = (letter, value) => {
    try {
      switch (letter) {
        case 's': return show(value, null);
        case 'd': return asNumber(value, toNumber);
        case 'i': return asNumber(value, parseInt);
        case 'f': return asNumber(value, parseFloat);
        case 'j': return asJson(value);
        case 'c': return '';
        default: return show(value, []);
      }
    } catch { return '[unprintable]'; }
  };
  const SPECIFIERS = 'sdifjoOc';
  // Replaces the format specifiers in the first value by the following values. Returns the text and how many were used.
  const applyFormat = (values) => {
    const first = values[0];
    let text = '', used = 1, from = 0;
    for (let at = indexOf(first, '%'); at >= 0 && text.length <= MAX_LINE; at = indexOf(first, '%', from)) {
      const letter = at + 1 < first.length ? first[at + 1] : '';
      text += slice(first, from, at);
      from = at + 2;
      if (letter === '%') text += '%';
      else if (letter !== '' && indexOf(SPECIFIERS, letter) >= 0 && used < values.length) text += formatSpecifier(letter, values[used++]);
      else text += '%' + letter;
    }
    return { text: text + slice(first, from), used };
  };
  // Returns the text of a line. Values without a format specifier are appended.
  const format = (values) => {
    let { text, used } = typeof values[0] === 'string' && values.length > 1 ? applyFormat(values) : { text: '', used: 0 };
    for (let i = used; i < values.length && text.length <= MAX_LINE; i++) text += (i ? ' ' : '') + safeShow(values[i]);
    return text;
  };

  // ---- lines ----

  // The state of the current record: the indentation of its lines; its counters and its timers, by label.
  let indent = '', counts = null, timers = null;
  const begin = () => {
    if (currentCall.lines !== null) return;
    indent = ''; counts = create(null); timers = create(null);
    currentCall.lines = [];
  };
  const print = (text) => {
    const { lines } = currentCall;
    if (lines.length < MAX_LINES) lines[lines.length] = slice(indent + text, 0, MAX_LINE);
  };
  const labelOf = (values) => values[0] === undefined ? 'default' : `${values[0]}`;
  const sliceValues = (values, start, end) => {
    const selected = [];
    for (let i = start; i < values.length && i < end; i++) selected[i - start] = values[i];
    return selected;
  };
  const withLabel = (what, values) => {
    if (values.length > 0 && typeof values[0] === 'string') values[0] = what + ': ' + values[0];
    return values.length === 0 ? what : typeof values[0] === 'string' ? format(values) : what + ': ' + format(values);
  };
  const count = (label) => {
    counts[label] = (counts[label] ?? 0) + 1;
    print(label + ': ' + counts[label]);
  };
  // Time does not move during a call.
  const timer = (values, ends) => {
    const label = labelOf(values);
    if (!timers[label]) return print("Timer '" + label + "' does not exist");
    if (ends) timers[label] = false;
    values[0] = label + ': 0ms';
    print(format(values));
  };
  const group = (values) => {
    if (values.length > 0) print(format(values));
    if (indent.length < MAX_CELL) indent += '  ';
  };

  // ---- tables ----

  // Returns the rows of a table with their index and value, at most MAX_LINES.
  const rowsOf = (data) => {
    const rows = [], kind = kindOf(data);
    const add = (index, value) => { rows[rows.length] = { index, value }; };
    if (kind === 'Map') {
      const entries = mapEntries(data);
      for (let { done, value } = nextEntry(entries); !done && rows.length < MAX_LINES; { done, value } = nextEntry(entries)) add(safeShow(value[0]), value[1]);
    } else if (kind === 'Set') {
      const values = setValues(data);
      for (let { done, value } = nextValue(values); !done && rows.length < MAX_LINES; { done, value } = nextValue(values)) add(NativeString(rows.length), value);
    } else if (isArray(data)) {
      for (let i = 0; i < data.length && i < MAX_LINES; i++) add(NativeString(i), data[i]);
    } else {
      for (let i = 0, keys = keysOf(data); i < keys.length && i < MAX_LINES; i++) add(keys[i], data[keys[i]]);
    }
    return rows;
  };
  const isObject = (value) => typeof value === 'object' && value !== null;
  const columnsOf = (rows) => {
    const columns = [], known = create(null);
    for (let i = 0; i < rows.length; i++) {
      const { value } = rows[i], keys = isObject(value) ? keysOf(value) : [];
      for (let k = 0; k < keys.length && columns.length < MAX_COLUMNS; k++) {
        if (!known[keys[k]]) columns[columns.length] = keys[k];
        known[keys[k]] = true;
      }
    }
    return columns;
  };
  const cell = (value) => slice(safeShow(value), 0, MAX_CELL);
  const linesOf = (rows, columns) => {
    let hasValues = false;
    for (let i = 0; i < rows.length; i++) hasValues = hasValues || !isObject(rows[i].value);
    const lines = [['(index)']];
    for (let c = 0; c < columns.length; c++) lines[0][c + 1] = cell(columns[c]);
    if (hasValues) lines[0][columns.length + 1] = 'Values';
    for (let i = 0; i < rows.length; i++) {
      const { index, value } = rows[i], line = [cell(index)], hasMembers = isObject(value);
      for (let c = 0; c < columns.length; c++) line[c + 1] = hasMembers && columns[c] in value ? cell(value[columns[c]]) : '';
      if (hasValues) line[columns.length + 1] = hasMembers ? '' : cell(value);
      lines[i + 1] = line;
    }
    return lines;
  };
  const table = (values) => {
    if (!isObject(values[0])) return print(format(values));
    const rows = rowsOf(values[0]), lines = linesOf(rows, isArray(values[1]) ? sliceValues(values[1], 0, MAX_COLUMNS) : columnsOf(rows));
    for (let c = 0; c < lines[0].length; c++) {
      let width = 0;
      for (let i = 0; i < lines.length; i++) if (lines[i][c].length > width) width = lines[i][c].length;
      for (let i = 0; i < lines.length && c + 1 < lines[0].length; i++) lines[i][c] = padEnd(lines[i][c], width);
    }
    for (let i = 0; i < lines.length; i++) print(join(lines[i], ' | '));
  };

  // ---- methods ----

  const printAll = (values) => print(format(values));
  const methods = {
    __proto__: null, log: printAll, info: printAll, warn: printAll, error: printAll, debug: printAll, dirxml: printAll, table, group,
    groupCollapsed: group,
    dir(values) { print(show(values[0], [])); },
    trace(values) { print(withLabel('Trace', values) + slice(new NativeError().stack, 'Error'.length)); },
    assert(values) { if (!values[0]) print(withLabel('Assertion failed', sliceValues(values, 1, values.length))); },
    groupEnd() { indent = slice(indent, 2); },
    count(values) { count(labelOf(values)); },
    countReset(values) { counts[labelOf(values)] = 0; },
    time(values) { timers[labelOf(values)] = true; },
    timeLog(values) { timer(values, false); },
    timeEnd(values) { timer([values[0]], true); },
    clear() {}, profile() {}, profileEnd() {}, timeStamp() {},
  };
  const console = create(null);
  for (const name of keysOf(methods)) {
    const run = methods[name];
    helpers.replace(console, name, { [name](...values) { try { begin(); run(values); } catch { /* drop the line */ } } }[name]);
  }
  provide('console', console);
});
