// Runs a script over batches of records, in the script's realm: reads, calls, writes, and answers `flow.contains`.
// Evaluates to a function that takes the realm's handles and returns what the outer harness calls.
//
// A call of `flow.contains` with values that are not known yet is answered false, and the values are noted. After all
// records have run, the parent is asked for all noted values at once; the records that got a wrong answer run again.
((realm) => {
  'use strict';
  const { uncurry, isArray, stringify, hidden, freeze, create, slice, match, Text } = realm;
  const { read, wallClock, seal, namePositions, begin, printed } = realm;
  const parse = JSON.parse, NativeMap = Map, Wrong = TypeError, { setPrototypeOf } = Object;
  const split = uncurry(String.prototype.split), tagOf = uncurry(Object.prototype.toString);
  const numberText = uncurry(Number.prototype.toString), bigText = uncurry(BigInt.prototype.toString);

  const MAX_VALUES = 1000, MAX_UNKNOWN = 64, MAX_PASSES = 16;
  // Stored values have 1 to 1,024 characters, of at most two UTF-16 units each.
  const MAX_VALUE_UNITS = 2048, MAX_NAME_UNITS = 400;
  const MAX_OUTPUTS = 10, MAX_OUTPUT_UNITS = 1000000;
  // A third of 32 MB: a UTF-16 unit takes up to three bytes. One record's outputs always fit.
  const MAX_BATCH_UNITS = 11000000, MAX_ASKED_UNITS = 4000000;
  const MAX_LOG_LINES = 200, MAX_MESSAGE = 1024, MAX_NAME = 100;
  const SLOW_MS = 50;
  const NOT_RESOLVED = 0, RESOLVED = 1, UNKNOWN_NAME = 2;
  const NO_VALUE = -1;
  const LOCATION = /script\.js:(\d{1,9}):(\d{1,9})/;
  const HALT = freeze({ __proto__: null });
  // A map whose methods the script can't replace.
  const methods = freeze({ __proto__: null, get: Map.prototype.get, set: Map.prototype.set });
  const dictionary = () => setPrototypeOf(new NativeMap(), methods);

  let script = null;
  // One batch.
  let texts = null, times = null, hasLong = null, outputs = null, slow = null, logs = null, logged = 0;
  let end = 0, todo = null, eager = false, interrupted = false, passes = 0, units = 0, askedUnits = 0, trace = null;
  let datasets = null, asked = null, guesses = null, position = null;
  // Batches that wait for answers, a list from the oldest to the newest.
  let oldest = null, newest = null;
  // One call. `verdict` outranks whatever the script makes of an exception of ours.
  let current = -1, noted = null, verdict = null;

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
      case 'number': return numberText(value);
      case 'bigint': return bigText(value);
      case 'undefined': return '';
      default:
        if (value === null) return '';
        throw new Wrong('flow.contains: values are strings or numbers');
    }
  };
  const noDataset = (name) => fail('UnknownDataset', 'flow.contains: you have no dataset ' + stringify(name));
  const datasetOf = (name) => {
    if (name.length > MAX_NAME_UNITS) noDataset(name);
    let dataset = datasets.get(name);
    if (dataset === undefined) {
      dataset = { __proto__: null, name, state: NOT_RESOLVED, numbers: dictionary(), known: 0, answers: '', asked: null };
      datasets.set(name, dataset);
    }
    if (dataset.state === UNKNOWN_NAME) noDataset(name);
    return dataset;
  };
  // A value's number among those that the batch asks about counts over all of its questions.
  const ask = (dataset, value) => {
    if (dataset.asked === null) {
      dataset.asked = [];
      asked[asked.length] = dataset;
      askedUnits += dataset.name.length;
    }
    if (value === null) return NO_VALUE;
    const count = dataset.asked.length, number = dataset.known + count;
    dataset.asked[count] = value;
    dataset.numbers.set(value, number);
    askedUnits += value.length;
    return number;
  };
  const contains = (name, values) => {
    if (typeof name !== 'string' || !isArray(values)) throw new Wrong('flow.contains(name, values) takes a string and an array');
    const count = values.length;
    if (!(count <= MAX_VALUES)) throw new Wrong('flow.contains: more than 1000 values');
    if (datasets === null) throw new Wrong('flow.contains works while a record is processed only');
    const dataset = datasetOf(name), { numbers, known, answers } = dataset;
    if (noted === null) noted = [];
    const before = noted.length;
    for (let i = 0; i < count; i++) {
      let value = values[i];
      if (typeof value !== 'string') value = textOfValue(value);
      if (value === '' || value.length > MAX_VALUE_UNITS) continue;
      let number = numbers.get(value);
      if (number === undefined) number = ask(dataset, value);
      else if (number < known) {
        if (answers[number] !== '1') continue;
        noted.length = before;
        return true;
      }
      noted[noted.length] = dataset;
      noted[noted.length] = number;
    }
    if (dataset.state === NOT_RESOLVED && noted.length === before) {
      noted[before] = dataset;
      noted[before + 1] = ask(dataset, null);
    }
    // A record that runs alone, under suspicion, is told the truth at once, for as many calls as others have passes.
    if (noted.length > (eager && passes <= MAX_PASSES ? 0 : 2 * MAX_UNKNOWN)) { verdict = ''; throw HALT; }
    return false;
  };
  const flow = create(null);
  flow.contains = contains;
  hidden(globalThis, 'flow', freeze(flow));
  freeze(contains);

  // ---- one record ----

  const readRecord = (row) => {
    let record;
    try { record = read(texts[row + 1], hasLong[row]); } catch (error) { fail('InvalidJSON', textOf(error, 'message')); }
    if (typeof record !== 'object' || record === null || isArray(record)) fail('NotAnObject', 'the record is no JSON object');
    return record;
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
  const write = (result) => {
    if (result === undefined || result === null) return '';
    if (!isArray(result)) return writeOne(result);
    const count = result.length;
    if (!(count <= MAX_OUTPUTS)) fail('InvalidOutput', 'a script returns at most 10 records for one');
    let text = '';
    for (let i = 0; i < count; i++) text += (i ? '\t' : '') + writeOne(result[i]);
    return text;
  };
  const run = (row) => {
    noted = null; verdict = null;
    begin(times[row], row);
    let output;
    try { output = write(script(readRecord(row))); } catch (error) { output = verdict === null ? describe(error) : ''; }
    return verdict === null ? output : verdict;
  };

  // ---- one pass over the records that have no final output yet ----

  const keep = (row, output) => {
    outputs[row] = output;
    units += output.length;
    const lines = printed();
    logs[row] = lines;
    if (lines !== null) logged += lines.length;
    if (noted === null || noted.length === 0) return;
    guesses[guesses.length] = row;
    guesses[guesses.length] = noted;
    // An empty verdict is a call that was stopped: it runs again whatever the answers are.
    guesses[guesses.length] = verdict === '';
  };
  const pass = () => {
    asked = []; guesses = []; askedUnits = 0; passes += 1;
    let last = wallClock();
    for (let j = 0; j < todo.length; j++) {
      const row = todo[j];
      if (row >= end) break;
      current = row;
      if (trace !== null) trace(row);
      const output = run(row);
      if (row > 0 && (units + output.length > MAX_BATCH_UNITS || askedUnits > MAX_ASKED_UNITS)) { end = row; break; }
      keep(row, output);
      const time = wallClock();
      slow[row] = time - last > SLOW_MS;
      last = time;
    }
    current = -1;
    return question();
  };
  const question = () => {
    if (guesses.length === 0) return '';
    let text = '';
    for (let i = 0; i < asked.length; i++) {
      text += (i ? ',' : '[') + stringify(asked[i].name) + ',' + stringify(setPrototypeOf(asked[i].asked, null));
    }
    return (text || '[') + ']';
  };
  const learn = (text) => {
    const lines = split(text, '\n');
    for (let i = 0; i < asked.length; i++) {
      const dataset = asked[i], answer = lines[i];
      dataset.state = answer === '?' ? UNKNOWN_NAME : RESOLVED;
      if (answer !== '?') dataset.answers += answer;
      dataset.known += dataset.asked.length;
      dataset.asked = null;
    }
  };
  const wrong = (notes) => {
    for (let i = 0; i < notes.length; i += 2) {
      if (notes[i].state === UNKNOWN_NAME || notes[i].answers[notes[i + 1]] === '1') return true;
    }
    return false;
  };
  const again = () => {
    todo = [];
    const enough = passes >= (eager ? 2 * MAX_PASSES : MAX_PASSES);
    for (let i = 0; i < guesses.length; i += 3) {
      const row = guesses[i];
      if (!guesses[i + 2] && !wrong(guesses[i + 1])) continue;
      units -= outputs[row].length;
      if (enough) outputs[row] = errorLine('LookupLimit', 'flow.contains: too many different values, asked one after another', '');
      else todo[todo.length] = row;
    }
  };

  return {
    __proto__: null,
    setScript(found) { script = found; },
    seal,
    describe,
    trace(report) { trace = report; },
    // Runs all records. text: a line of JSON with the records' columns, then a line per record.
    // Returns the question to the parent, or '' when there is none.
    start(text, isEager) {
      texts = split(text, '\n');
      const columns = parse(texts[0]), count = texts.length - 1, topic = columns.topic;
      times = columns.timestamps;
      position = (row) => topic + '/' + columns.partitions[row] + '/' + columns.offsets[row] + '/' + columns.indexes[row];
      namePositions(position);
      outputs = []; slow = []; logs = []; todo = []; hasLong = []; datasets = dictionary();
      for (let i = 0; i < count; i++) { todo[i] = i; hasLong[i] = false; }
      for (let i = 0; i < columns.long.length; i++) hasLong[columns.long[i]] = true;
      end = count; eager = isEager; interrupted = false; passes = 0; units = 0; logged = 0;
      return pass();
    },
    // Sets the batch aside that has asked, until its answers come.
    suspend() {
      const batch = {
        __proto__: null, texts, times, hasLong, outputs, slow, logs, logged, end, todo, eager, interrupted, passes, units,
        datasets, asked, guesses, position, next: null,
      };
      if (oldest === null) oldest = batch; else newest.next = batch;
      newest = batch;
    },
    // Goes on with the batch that was set aside first.
    resume() {
      const batch = oldest;
      oldest = batch.next;
      if (oldest === null) newest = null;
      ({ texts, times, hasLong, outputs, slow, logs, logged, end, todo, eager, interrupted, passes, units } = batch);
      ({ datasets, asked, guesses, position } = batch);
      namePositions(position);
    },
    // Takes the answers to the last question, and runs the records again that were told wrong.
    feed(text) {
      learn(text);
      again();
      return todo.length ? pass() : '';
    },
    // After a timeout: gives up the record that was running, and those behind it. Returns as `start` does.
    cut() {
      const row = current;
      current = -1;
      if (row >= 0 && eager && noted !== null && noted.length !== 0) {
        verdict = '';
        keep(row, '');
      } else {
        interrupted = true;
        end = row < 0 ? 0 : row;
      }
      return end === 0 ? '' : question();
    },
    // The results: "<records> <1: interrupted> <log lines> <slow rows>", a line per record, then the log lines.
    finish() {
      let body = '', slowRows = '', log = '', lines = 0;
      for (let row = 0; row < end; row++) {
        body += '\n' + outputs[row];
        if (slow[row]) slowRows += (slowRows ? ',' : '') + row;
        for (let i = 0; logged && logs[row] !== null && i < logs[row].length && lines < MAX_LOG_LINES; i++, lines++) {
          log += '\n' + stringify(logs[row][i]);
        }
      }
      texts = outputs = logs = datasets = guesses = asked = noted = todo = position = null;
      return end + ' ' + (interrupted ? 1 : 0) + ' ' + lines + ' ' + slowRows + body + log;
    },
  };
});
