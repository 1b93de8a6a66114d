// Runs a script over batches of records, in the script's realm: reads, calls, writes, and answers `flow.contains`.
// Evaluates to a function that takes the realm's handles and returns what the outer harness calls.
//
// A call of `flow.contains` with values that are not known yet is answered false, and the values are noted. After all
// records have run, the parent is asked for all noted values at once; the records that got a wrong answer run again, and
// only what these asked is remembered: to look up every value in a map costs more than to ask for some of them twice.
((realm) => {
  'use strict';
  const { uncurry, isArray, stringify, hidden, freeze, create, slice, indexOf, match, Text } = realm;
  const { withExact, wallClock, seal, call } = realm;
  const parse = JSON.parse, NativeArray = Array, Bytes = Uint8Array, NativeMap = Map, Wrong = TypeError, { setPrototypeOf } = Object;
  const split = uncurry(String.prototype.split), tagOf = uncurry(Object.prototype.toString);
  const join = uncurry(Array.prototype.join), fill = uncurry(Array.prototype.fill), rowAt = uncurry(Array.prototype.indexOf);
  const byteAt = uncurry(Uint8Array.prototype.indexOf);
  const numberText = uncurry(Number.prototype.toString), bigText = uncurry(BigInt.prototype.toString);

  const MAX_VALUES = 1000, MAX_UNKNOWN = 64, MAX_PASSES = 16;
  // Stored values have 1 to 1,024 characters, of at most two UTF-16 units each.
  const MAX_VALUE_UNITS = 2048, MAX_NAME_UNITS = 400;
  const MAX_OUTPUTS = 10, MAX_OUTPUT_UNITS = 1000000;
  // A third of 32 MB: a UTF-16 unit takes up to three bytes. One record's outputs always fit.
  const MAX_BATCH_UNITS = 11000000, MAX_ASKED_UNITS = 4000000;
  const MAX_LOG_LINES = 200, MAX_MESSAGE = 1024, MAX_NAME = 100;
  // The clock is read once for so many records, as long as they are quick.
  const SLOW_MS = 50, TIMED_TOGETHER = 8;
  const NOT_RESOLVED = 0, RESOLVED = 1, UNKNOWN_NAME = 2;
  // So many records leave together. Texts that stay for long are expensive: the engine copies them, and takes and gives
  // back memory.
  const PART = 64, FRAME = 5;
  const LOCATION = /script\.js:(\d{1,9}):(\d{1,9})/;
  const HALT = freeze({ __proto__: null });
  // A map whose methods the script can't replace.
  const methods = freeze({ __proto__: null, get: Map.prototype.get, set: Map.prototype.set });
  const dictionary = () => setPrototypeOf(new NativeMap(), methods);

  let script = null, trace = null, source = null, put = null;
  // One batch. Its text comes in parts. firsts: their first rows; lines: those of the part at hand, from row `first` to the
  // one before `ahead`. places: per row 0, or where numbers of 16 digits and more begin.
  let firsts = null, part = 0, lines = null, first = 0, ahead = 0;
  let columns = null, places = null, slow = null, logs = null, datasets = null;
  let end = 0, eager = false, interrupted = false, passes = 0, units = 0;
  // Its results. left: so many records have left for the frame of results, which ends at `written`; outputs has the others.
  let outputs = null, left = 0, written = FRAME, logged = 0;
  // One pass. todo: its rows, or null for all; stopped: those that run again whatever the answers are.
  let todo = null, stopped = null, asking = null, askedUnits = 0, timed = 0, since = 0;
  // Batches that wait for answers, a list from the oldest to the newest.
  let oldest = null, newest = null;
  // One call. noted: how many values it asked. `verdict` outranks whatever the script makes of an exception of ours; an
  // empty one says that the call was stopped.
  let noted = 0, verdict = null;

  // ---- errors ----

  const fail = (name, message) => {
    verdict = errorLine(name, message, '');
    throw HALT;
  };
  const errorLine = (name, message, stack) => {
    const found = match(LOCATION, stack);
    const place = found === null ? ',0,0' : ',' + found[1] + ',' + found[2];
    return '!' + stringify(slice(name, 0, MAX_NAME)) + ',' + stringify(slice(message, 0, MAX_MESSAGE)) + place;
  };
  const textOf = (error, key) => {
    try {
      const text = error[key];
      return typeof text === 'string' ? text : '';
    } catch { return ''; }
  };
  const jsonOf = (value) => {
    try { return stringify(value) || ''; } catch { return ''; }
  };
  const describe = (error) => {
    if (typeof error === 'object' && error !== null) {
      const name = textOf(error, 'name'), message = textOf(error, 'message');
      return errorLine(name || 'Error', name || message ? message : jsonOf(error), textOf(error, 'stack'));
    }
    let text = '';
    try { text = Text(error); } catch { /* a symbol or an object without text */ }
    return errorLine('Error', text, '');
  };

  // ---- flow.contains ----

  const textOfValue = (value) => {
    switch (typeof value) {
      case 'string': return value;
      case 'number': return numberText(value);
      case 'bigint': return bigText(value);
      case 'undefined': return '';
      default:
        if (value === null) return '';
        throw new Wrong('flow.contains: values are strings or numbers');
    }
  };
  const noDataset = (name) => fail('UnknownDataset', 'flow.contains: you have no dataset ' + stringify(name));
  // asked: this pass's values, rows: whose they are; unnamed: rows that asked no value, but whether the dataset is there.
  // facts: the answers to all values of records that run again.
  const newDataset = (name) => {
    const dataset = {
      name, state: NOT_RESOLVED, isAsked: false, asked: [], rows: [], unnamed: [], answers: '', facts: null,
    };
    datasets.set(name, dataset);
    return dataset;
  };
  const datasetOf = (name) => {
    if (name.length > MAX_NAME_UNITS) noDataset(name);
    const dataset = datasets.get(name);
    if (dataset === undefined) return newDataset(name);
    if (dataset.state === UNKNOWN_NAME) noDataset(name);
    return dataset;
  };
  const enlist = (dataset) => {
    dataset.isAsked = true;
    asking[asking.length] = dataset;
    askedUnits += dataset.name.length;
  };
  const askName = (dataset) => {
    if (!dataset.isAsked) enlist(dataset);
    dataset.unnamed[dataset.unnamed.length] = call.row;
    noted += 1;
  };
  // The values that the facts don't have, or null when one of the others is a member.
  const newTo = (facts, values, count) => {
    const unknown = [];
    for (let i = 0; i < count; i++) {
      const value = textOfValue(values[i]), fact = facts.get(value);
      if (fact === '1') return null;
      if (fact === undefined) unknown[unknown.length] = value;
    }
    return unknown;
  };
  const contains = (name, values) => {
    if (typeof name !== 'string' || !isArray(values)) throw new Wrong('flow.contains(name, values) takes a string and an array');
    let count = values.length;
    if (!(count <= MAX_VALUES)) throw new Wrong('flow.contains: more than 1000 values');
    if (datasets === null) throw new Wrong('flow.contains works while a record is processed only');
    if (noted >= MAX_VALUES) throw HALT; // the script caught the last one
    const dataset = datasetOf(name), before = noted, { asked, rows, facts } = dataset;
    if (facts !== null) {
      values = newTo(facts, values, count);
      if (values === null) return true;
      count = values.length;
    }
    for (let i = 0; i < count; i++) {
      let value = values[i];
      if (typeof value !== 'string') value = textOfValue(value);
      if (value === '' || value.length > MAX_VALUE_UNITS) continue;
      if (!dataset.isAsked) enlist(dataset);
      rows[asked.length] = call.row;
      asked[asked.length] = value;
      askedUnits += value.length;
      noted += 1;
    }
    if (dataset.state === NOT_RESOLVED && noted === before) askName(dataset);
    // A record that runs alone, under suspicion, is told the truth at once, for as many calls as others have passes.
    if (noted > (eager && passes <= MAX_PASSES ? 0 : MAX_UNKNOWN)) { verdict = ''; throw HALT; }
    return false;
  };
  const flow = create(null);
  flow.contains = contains;
  hidden(globalThis, 'flow', freeze(flow));
  freeze(contains);

  // ---- one record ----

  // Rows are taken in order. The parts before a frontier have been seen, in an earlier pass or in this one.
  const turnTo = (row) => {
    do part += 1; while (firsts[part + 1] <= row);
    lines = split(source(part), '\n');
    first = firsts[part];
    ahead = firsts[part + 1] = first + lines.length;
  };
  const requireObject = (record) => {
    if (typeof record !== 'object' || record === null || isArray(record)) fail('NotAnObject', 'the record is no JSON object');
  };
  // Of a Map, an Error or a generator nothing is left as JSON.
  const requirePlain = (output) => {
    const tag = tagOf(output);
    if (tag !== '[object Object]') fail('InvalidOutput', 'a script returns objects with members of their own, not a ' + slice(tag, 8, -1));
  };
  const writeOne = (output) => {
    if (typeof output !== 'object' || output === null) fail('InvalidOutput', 'a script returns objects, not ' + (output === null ? 'null' : typeof output));
    if (typeof output.then === 'function') fail('InvalidOutput', 'a script returns objects, not a Promise');
    const text = stringify(output);
    if (typeof text !== 'string' || text[0] !== '{') fail('InvalidOutput', 'the returned value is no JSON object');
    if (text === '{}') requirePlain(output);
    if (text.length > MAX_OUTPUT_UNITS) fail('OutputTooLarge', 'the returned record is larger than 1,000,000 bytes');
    return text;
  };
  const writeAll = (result) => {
    const count = result.length;
    if (!(count <= MAX_OUTPUTS)) fail('InvalidOutput', 'a script returns at most 10 records for one');
    let text = '';
    for (let i = 0; i < count; i++) text += (i ? '\t' : '') + writeOne(result[i]);
    return text;
  };
  // Without a JIT each call of a function of ours costs as much as a few lines of this one.
  const run = (row) => {
    noted = 0; verdict = null;
    call.row = row; call.seeded = false; call.lines = null;
    let output = '', isRead = false;
    try {
      const text = lines[row - first], record = parse(text);
      isRead = true;
      if (text[0] !== '{') requireObject(record);
      const result = script(places[row] === 0 ? record : withExact(record, text, places[row]));
      if (result !== undefined && result !== null) output = isArray(result) ? writeAll(result) : writeOne(result);
    } catch (error) {
      if (verdict === null) output = isRead ? describe(error) : errorLine('InvalidJSON', textOf(error, 'message'), '');
    }
    return verdict === null ? output : verdict;
  };

  // ---- one pass over the records that have no final output yet ----

  const keepLines = (row) => {
    if (logs === null) logs = fill(new NativeArray(end), null);
    logs[row] = call.lines;
  };
  const keep = (row, output) => {
    outputs[row - left] = output;
    units += output.length;
    if (logs !== null || call.lines !== null) keepLines(row);
    if (verdict === '') stopped[stopped.length] = row;
  };
  // Looks at the time of the pass's records before the one at j. Returns before which one to look again. When records
  // together took too long each of them counts as slow: alone it will be judged by its own time.
  const lookAtTime = (j) => {
    const time = wallClock(), took = time - since;
    for (; took > SLOW_MS && timed < j; timed++) slow[slow.length] = todo === null ? timed : todo[timed];
    timed = j; since = time;
    return j + (took > SLOW_MS / TIMED_TOGETHER ? 1 : TIMED_TOGETHER);
  };
  // Moves all outputs to the frame of results. Nothing interrupts what follows the call.
  const leave = () => {
    if (outputs.length === 0) return;
    const reached = put(written, join(outputs, '\n'));
    written = reached; left += outputs.length; outputs = [];
    // What has left is not given up when the time is over now.
    call.row = left;
  };
  const pass = () => {
    asking = []; stopped = []; askedUnits = 0; passes += 1; part = -1; ahead = 0; timed = 0; since = wallClock();
    const count = todo === null ? end : todo.length;
    let j = 0, look = TIMED_TOGETHER;
    for (; j < count; j++) {
      if (j === look) look = lookAtTime(j);
      const row = todo === null ? j : todo[j];
      if (row >= end) break;
      if (row >= ahead) turnTo(row);
      if (trace !== null) trace(row);
      const output = run(row);
      if (row > 0 && (units + output.length > MAX_BATCH_UNITS || askedUnits > MAX_ASKED_UNITS)) { end = row; break; }
      keep(row, output);
      if (todo === null && outputs.length === PART && asking.length === 0) leave();
    }
    call.row = -1;
    lookAtTime(j);
    return question();
  };
  const question = () => {
    let text = '';
    for (let i = 0; i < asking.length; i++) {
      text += (i ? ',' : '[') + stringify(asking[i].name) + ',' + stringify(setPrototypeOf(asking[i].asked, null));
    }
    return text && text + ']';
  };
  // Marks by row: those that have this mark, in order.
  const marked = (marks) => {
    const rows = [];
    for (let row = byteAt(marks, 1); row >= 0; row = byteAt(marks, 1, row + 1)) rows[rows.length] = row;
    return rows;
  };
  const mark = (marks, rows) => {
    for (let i = 0; i < rows.length; i++) if (rows[i] < end) marks[rows[i]] = 1;
  };
  const learn = (dataset, answers, wrong) => {
    dataset.answers = answers;
    dataset.state = answers === '?' ? UNKNOWN_NAME : RESOLVED;
    if (answers === '?') { mark(wrong, dataset.rows); mark(wrong, dataset.unnamed); }
    const { rows } = dataset, members = [];
    for (let i = indexOf(answers, '1'); i >= 0; i = indexOf(answers, '1', i + 1)) members[members.length] = rows[i];
    mark(wrong, members);
  };
  // Keeps the answers to the values of records that run again.
  const remember = (dataset, wrong) => {
    const { asked, rows, answers } = dataset;
    if (dataset.facts === null) dataset.facts = dictionary();
    for (let i = 0; i < rows.length; i++) if (wrong[rows[i]] === 1) dataset.facts.set(asked[i], answers[i]);
  };
  const forget = (dataset) => {
    dataset.isAsked = false;
    dataset.asked = []; dataset.rows = []; dataset.unnamed = [];
  };
  const logText = (lines) => {
    let text = '';
    for (let i = 0; lines !== null && i < lines.length && logged < MAX_LOG_LINES; i++, logged++) text += stringify(lines[i]) + '\n';
    return text;
  };
  const again = (wrong) => {
    const enough = passes >= (eager ? 2 * MAX_PASSES : MAX_PASSES);
    todo = marked(wrong);
    for (let i = 0; i < todo.length; i++) {
      const row = todo[i];
      units -= outputs[row - left].length;
      if (enough) outputs[row - left] = errorLine('LookupLimit', 'flow.contains: too many different values, asked one after another', '');
    }
    if (enough) todo = [];
  };

  return {
    __proto__: null,
    setScript(found) { script = found; },
    // read(number): a part of the batch's text; write(at, lines): puts lines into the frame of results, returns its end.
    connect(read, write) { source = read; put = write; },
    seal,
    describe,
    // From now on the first use of time or chance is noted, until `outsideUse` is asked: an error line, or ''.
    watchTopLevel() { call.watched = true; },
    outsideUse() {
      const { outside } = call;
      call.watched = false;
      return outside === null ? '' : errorLine('OutsideOfRecord', outside.what, outside.stack);
    },
    trace(report) { trace = report; },
    // Makes ready for `pass`, which may be interrupted at once: no record runs then. head: as JSON, how many there are and
    // the places of long numbers in them: a row and its places, a row and its places, …; text: the records' columns as
    // JSON, which few scripts ask for.
    begin(head, text, isEager) {
      const long = parse(head);
      let parsed = null;
      columns = call.columns = () => parsed === null ? parsed = parse(text) : parsed;
      end = long[0]; firsts = [0];
      places = fill(new NativeArray(end), 0);
      for (let i = 1; i < long.length; i += 2) places[long[i]] = long[i + 1];
      outputs = []; left = 0; written = FRAME; slow = []; logs = todo = null; datasets = dictionary();
      eager = isEager; interrupted = false; passes = 0; units = 0;
      asking = []; stopped = [];
    },
    // Runs all records. Returns the question to the parent, or '' when there is none.
    pass,
    // Sets the batch aside that has asked, until its answers come.
    suspend() {
      const batch = {
        __proto__: null, firsts, columns, places, slow, logs, outputs, left, written, datasets, end, eager, interrupted, passes, units,
        todo, stopped, asking, next: null,
      };
      if (oldest === null) oldest = batch; else newest.next = batch;
      newest = batch;
    },
    // Goes on with the batch that was set aside first.
    resume() {
      const batch = oldest;
      oldest = batch.next;
      if (oldest === null) newest = null;
      ({ firsts, columns, places, slow, logs, outputs, left, written, datasets, end, eager, interrupted, passes, units } = batch);
      ({ todo, stopped, asking } = batch);
      call.columns = columns;
    },
    // Takes the answers to the last question, and runs the records again that were told wrong.
    feed(text) {
      const lines = split(text, '\n'), wrong = new Bytes(end);
      mark(wrong, stopped);
      for (let i = 0; i < asking.length; i++) learn(asking[i], lines[i], wrong);
      again(wrong);
      for (let i = 0; i < asking.length; i++) {
        if (todo.length) remember(asking[i], wrong);
        forget(asking[i]);
      }
      return todo.length ? pass() : '';
    },
    // After a timeout: gives up the record that was running, and those behind it. Returns as `pass` does.
    cut() {
      const row = call.row;
      call.row = -1;
      if (row >= 0) lookAtTime(todo === null ? row : rowAt(todo, row));
      if (row >= 0 && eager && noted !== 0) {
        verdict = '';
        keep(row, '');
      } else if (row < end) {
        interrupted = true;
        end = row < 0 ? 0 : row;
      }
      if (end === 0) { outputs = []; left = 0; written = FRAME; }
      return end === 0 ? '' : question();
    },
    // Puts the outputs that are left into the frame: a line per record. Returns what follows them: log lines, and then
    // "<records> <1: interrupted> <log lines> <slow rows>".
    finish() {
      const slowRows = new Bytes(end);
      let log = '';
      mark(slowRows, slow); logged = 0;
      for (let row = 0; logs !== null && row < end; row++) log += logText(logs[row]);
      outputs.length = end - left;
      leave();
      call.row = -1;
      const head = end + ' ' + (interrupted ? 1 : 0) + ' ' + logged + ' ' + join(marked(slowRows), ',');
      lines = firsts = columns = places = outputs = slow = logs = datasets = todo = stopped = asking = call.columns = null;
      return log + head;
    },
    // Where the frame of results ends.
    written() { return written; },
  };
});
