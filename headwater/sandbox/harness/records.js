// Runs a script over batches of records in the script's realm: parses records, calls the script, writes its outputs, and
// answers `flow.contains`. Evaluates to a function that takes the realm's handles and returns the functions for main.js.
// `flow.contains` returns false for values whose answer is not known yet, and notes them. After all records have run, the
// parent is asked for all noted values at once, and the records that got a wrong answer run again. Only the answers to
// these records are kept: a map of all values would cost more than asking for some of them twice.
// When a record must run only once, the script blocks for each answer. That is so for a stateful script, whose state could
// depend on an assumed answer, and for a record that runs alone. A rehearsal in another realm finds the likely questions
// of such a script before.
((realm) => {
  'use strict';
  const { uncurry, isArray, parse, stringify, hidden, freeze, create, slice, indexOf, match, NativeString } = realm;
  const { restoreLongIntegers, stringifyMarked, stringifySlowPath, parseMarked, noteCircularReference, beginCalls, asNative, SPACES } = realm;
  const { wallClock, seal, currentCall, FROZEN } = realm;
  const NativeArray = Array, Bytes = Uint8Array, NativeMap = Map, NativeTypeError = TypeError, { setPrototypeOf } = Object, { isView } = ArrayBuffer;
  const isError = Error.isError;
  const split = uncurry(String.prototype.split), tagOf = uncurry(Object.prototype.toString);
  const join = uncurry(Array.prototype.join), fill = uncurry(Array.prototype.fill), rowAt = uncurry(Array.prototype.indexOf);
  const byteAt = uncurry(Uint8Array.prototype.indexOf);
  const numberText = uncurry(Number.prototype.toString), bigText = uncurry(BigInt.prototype.toString);

  const MAX_VALUES = 1000, MAX_UNKNOWN = 64, MAX_PASSES = 16;
  // A rehearsal, and a run with synchronous questions, stop after the current record once this much time has passed.
  const SOFT_LIMIT_MS = 125;
  // Stored values have 1 to 1,024 characters, of at most two UTF-16 units each.
  const MAX_VALUE_UNITS = 2048, MAX_NAME_UNITS = 400;
  const MAX_OUTPUTS = 1000, MAX_OUTPUT_UNITS = 1000000, MAX_OUTPUTS_UNITS = 8000000;
  // A third of 32 MB: a UTF-16 unit takes up to three bytes. One record's outputs always fit.
  const MAX_BATCH_UNITS = 11000000, MAX_ASKED_UNITS = 4000000, MAX_UNITS_BEFORE = MAX_BATCH_UNITS - MAX_OUTPUTS_UNITS;
  const MAX_LOG_LINES = 200, MAX_MESSAGE = 1024, MAX_NAME = 100;
  // The clock is read once for this many records, as long as they are quick.
  const SLOW_MS = 50, TIMED_TOGETHER = 8;
  const NOT_RESOLVED = 0, RESOLVED = 1, UNKNOWN_NAME = 2;
  // Outputs are moved to the frame in groups of this many records. Strings that live long are expensive: the garbage
  // collector copies them and grows the heap.
  const FLUSHED_RECORDS = 64, FRAME_HEADER_BYTES = 5;
  const LOCATION = /script\.js:(\d{1,9}):(\d{1,9})/;
  const STOP_SIGNAL = freeze({ __proto__: null });
  // A map whose methods the script can't replace.
  const methods = freeze({ __proto__: null, get: Map.prototype.get, set: Map.prototype.set });
  const dictionary = () => setPrototypeOf(new NativeMap(), methods);

  let script = null, trace = null, readPart = null, writeLines = null, askSync = null;
  // The current batch. Its text is read in parts. firsts: the first row of each part; lines: the lines of the current part,
  // from row `first` to the row before `nextRow`. longIntegerOffsets: by row 0, or where integers of 16 digits begin.
  let firsts = null, part = 0, lines = null, first = 0, nextRow = 0;
  let columns = null, longIntegerOffsets = null, slow = null, logs = null, datasets = null;
  // waits: `flow.contains` blocks until it has the true answer. unfinished: rows that did not settle within MAX_PASSES.
  let end = 0, waits = false, isDryRun = false, interrupted = false, passes = 0, units = 0, unfinished = null, passBegan = 0;
  // Whether another script wrote the records of the batch, and whether the outputs go to another script.
  let inputFromScript = false, feedsScript = false, alone = false, write = stringify;
  const chooseWriter = () => { write = feedsScript ? stringifyMarked : currentCall.useSlowPath ? stringifySlowPath : stringify; };
  // Its results. movedCount: the number of outputs in the frame RESULTS, which ends at `written`; outputs: the others.
  let outputs = null, movedCount = 0, written = FRAME_HEADER_BYTES, logged = 0;
  // The current pass. todo: its rows, or null for all; stopped: the rows that run again whatever the answers are.
  let todo = null, stopped = null, asking = null, askedUnits = 0, timedUpTo = 0, groupBegan = 0;
  // Batches that wait for answers, a linked list from the oldest to the newest.
  let oldest = null, newest = null;
  // The current call. noted: the number of values that it asked for. verdict: the final output of this call, even if the
  // script catches our exception; '' means that the call was stopped and the record has to run again.
  let noted = 0, verdict = null;

  // ---- errors ----

  const fail = (name, message) => {
    verdict = errorLine(name, message, '');
    throw STOP_SIGNAL;
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
    try { return stringifySlowPath(value) || ''; } catch { return ''; }
  };
  const BIGINT_ADVICE = '. Integers beyond 2^53 - 1 come as BigInt: convert with Number(x), or with BigInt(x) on both sides';
  const ofBigInt = /^Cannot (mix BigInt and other types|convert a BigInt value to a number)/;
  // V8 has the same message for objects that a script has frozen itself, and often does not name the object.
  const ofFrozen = /^Cannot (?:assign to read only property|delete property|(?:add|define) property|redefine property:) (?!'?\d)/;
  const ofBuiltIn = /^Cannot (?:assign to read only|delete) property '.*' of (?:object |function )?'?(?:\[object (?!Object\])\w+\]|.*\[native code\] \})'?$/s;
  const explained = (message) => {
    noteCircularReference(message);
    chooseWriter();
    if (match(ofBigInt, message) !== null) return message + BIGINT_ADVICE;
    if (match(ofFrozen, message) === null) return message;
    return message + (match(ofBuiltIn, message) === null ? '. If this is a built-in: ' : ': ') + FROZEN;
  };
  const describe = (error) => {
    if (typeof error === 'object' && error !== null) {
      const name = textOf(error, 'name'), message = explained(textOf(error, 'message'));
      return errorLine(name || 'Error', name || message ? message : jsonOf(error), textOf(error, 'stack'));
    }
    let text = '';
    try { text = NativeString(error); } catch { /* a symbol or an object without text */ }
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
        throw new NativeTypeError('flow.contains: values are strings or numbers');
    }
  };
  const noDataset = (name) => fail('UnknownDataset', 'flow.contains: you have no dataset ' + stringify(name));
  // asked: the values of this pass; rows: the record of each value; unnamed: the records that asked without a value, so
  // that only the existence of the dataset matters. knownAnswers: the answers for records that run again.
  const newDataset = (name) => {
    const dataset = {
      name, state: NOT_RESOLVED, isAsked: false, asked: [], rows: [], unnamed: [], answers: '', knownAnswers: null,
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
  const addToQuestion = (dataset) => {
    dataset.isAsked = true;
    asking[asking.length] = dataset;
    askedUnits += dataset.name.length;
  };
  const askName = (dataset) => {
    if (!dataset.isAsked) addToQuestion(dataset);
    dataset.unnamed[dataset.unnamed.length] = currentCall.row;
    noted += 1;
  };
  // Returns the values without a known answer; null if one of the known values is a member.
  const unknownValues = (knownAnswers, values, count) => {
    const unknown = [];
    for (let i = 0; i < count; i++) {
      const value = textOfValue(values[i]), fact = knownAnswers.get(value);
      if (fact === '1') return null;
      if (fact === undefined) unknown[unknown.length] = value;
    }
    return unknown;
  };
  // Throws RangeError here if the stack is nearly full. Otherwise the overflow would happen in the outer realm and leak
  // one of its error objects.
  const STACK_FRAMES = 200;
  const requireStack = (frames) => frames > 0 && requireStack(frames - 1);
  // Asks for the values without a known answer, and blocks until the answer arrives.
  const isMember = (dataset, values, count) => {
    if (dataset.knownAnswers === null) dataset.knownAnswers = dictionary();
    const { knownAnswers } = dataset, unknown = unknownValues(knownAnswers, values, count), asked = [];
    if (unknown === null) return true;
    for (let i = 0; i < unknown.length; i++) {
      if (unknown[i] !== '' && unknown[i].length <= MAX_VALUE_UNITS) asked[asked.length] = unknown[i];
    }
    if (asked.length === 0 && dataset.state === RESOLVED) return false;
    requireStack(STACK_FRAMES);
    const answers = askSync('[' + stringify(dataset.name) + ',' + stringify(setPrototypeOf(asked, null)) + ']');
    dataset.state = answers === '?' ? UNKNOWN_NAME : RESOLVED;
    if (answers === '?') noDataset(dataset.name);
    for (let i = 0; i < asked.length; i++) knownAnswers.set(asked[i], answers[i]);
    return indexOf(answers, '1') >= 0;
  };
  const contains = (name, values) => {
    if (typeof name !== 'string' || !isArray(values)) throw new NativeTypeError('flow.contains(name, values) takes a string and an array');
    let count = values.length;
    if (!(count <= MAX_VALUES)) throw new NativeTypeError('flow.contains: more than 1000 values');
    if (datasets === null) throw new NativeTypeError('flow.contains works while a record is processed only');
    if (noted >= MAX_VALUES) throw STOP_SIGNAL; // The script caught the previous stop signal.
    const dataset = datasetOf(name), before = noted, { asked, rows, knownAnswers } = dataset;
    if (waits) return isMember(dataset, values, count);
    if (knownAnswers !== null) {
      values = unknownValues(knownAnswers, values, count);
      if (values === null) return true;
      count = values.length;
    }
    for (let i = 0; i < count; i++) {
      let value = values[i];
      if (typeof value !== 'string') value = textOfValue(value);
      if (value === '' || value.length > MAX_VALUE_UNITS) continue;
      if (!dataset.isAsked) addToQuestion(dataset);
      rows[asked.length] = currentCall.row;
      asked[asked.length] = value;
      askedUnits += value.length;
      noted += 1;
    }
    if (dataset.state === NOT_RESOLVED && noted === before) askName(dataset);
    if (noted > MAX_UNKNOWN) { verdict = ''; throw STOP_SIGNAL; }
    return false;
  };
  const flow = create(null);
  flow.contains = freeze(asNative(contains, 'contains', 2));
  hidden(globalThis, 'flow', freeze(flow));

  // ---- one record ----

  // Rows are visited in ascending order; `firsts` of all parts up to the current one is known from this pass or an
  // earlier one.
  const loadPartOf = (row) => {
    do part += 1; while (firsts[part + 1] <= row);
    lines = split(readPart(part), '\n');
    first = firsts[part];
    nextRow = firsts[part + 1] = first + lines.length;
  };
  const requireObject = (record) => {
    if (typeof record !== 'object' || record === null || isArray(record)) fail('NotAnObject', 'the record is no JSON object');
  };
  const refuse = (what) =>
    fail('InvalidOutput', 'process returned ' + what + ': return the record to keep it, null to drop it, or an array of records');
  const withArticle = (noun) => (match(/^[AEIO]/i, noun) === null ? 'a ' : 'an ') + noun;
  // A Map, an Error or a generator becomes `{}` in JSON, and a typed array an object with index keys: refuse both.
  const requirePlain = (output, place) => {
    const kind = slice(tagOf(output), 8, -1);
    if (place === undefined ? kind !== 'Object' : isView(output)) refuse(withArticle(kind));
  };
  // Fails if a text is too large without its marks, each of which takes two units.
  const requireRoom = (text) => {
    if (text.length - (feedsScript ? 2 * currentCall.marks : 0) > MAX_OUTPUT_UNITS) fail('OutputTooLarge', 'the returned record is larger than 1,000,000 bytes');
  };
  const writeOne = (output) => {
    if (typeof output !== 'object' || output === null) refuse(withArticle(typeof output));
    if (typeof output.then === 'function') refuse('a Promise, for which nothing waits');
    const text = write(output);
    if (typeof text !== 'string' || text[0] !== '{') refuse(isArray(output) ? 'an array in an array' : 'an object that is none as JSON');
    const third = text[2];
    if (third === undefined || third === '0') requirePlain(output, third);
    if (text.length > MAX_OUTPUT_UNITS) requireRoom(text);
    return feedsScript && currentCall.marks !== 0 ? slice(SPACES, 0, currentCall.marks) + text : text;
  };
  const writeAll = (result) => {
    let text = '', count = 0, size = 0;
    for (let i = 0; i < result.length; i++) {
      const output = result[i];
      if (output === null || output === undefined) continue;
      count += 1;
      if (count > MAX_OUTPUTS) fail('InvalidOutput', 'process returned more than 1,000 records for one');
      const one = writeOne(output);
      size += one.length - (feedsScript ? 2 * currentCall.marks : 0);
      if (size > MAX_OUTPUTS_UNITS + SPACES.length * count) fail('OutputTooLarge', 'the returned records are larger than 8,000,000 bytes together');
      text += (count > 1 ? '\t' : '') + one;
    }
    return text;
  };
  // One long function, because without a JIT a function call costs as much as a few of its lines.
  const run = (row) => {
    noted = 0; verdict = null;
    currentCall.row = row; currentCall.seeded = false; currentCall.lines = null;
    let output = '', isRead = false;
    try {
      const text = lines[row - first], record = inputFromScript && text[0] === ' ' ? parseMarked(text) : parse(text);
      isRead = true;
      if (text[0] !== '{') requireObject(record);
      const result = script(longIntegerOffsets[row] === 0 ? record : restoreLongIntegers(record, text, longIntegerOffsets[row]));
      if (result !== undefined && result !== null) output = isArray(result) ? writeAll(result) : writeOne(result);
    } catch (error) {
      if (verdict === null) output = isRead ? describe(error) : errorLine('InvalidJSON', textOf(error, 'message'), '');
    }
    return verdict === null ? output : verdict;
  };

  // ---- one pass over the records that have no final output yet ----

  const keepLines = (row) => {
    if (logs === null) logs = fill(new NativeArray(end), null);
    logs[row] = currentCall.lines;
  };
  const keep = (row, output) => {
    outputs[row - movedCount] = output;
    units += output.length;
    if (logs !== null || currentCall.lines !== null) keepLines(row);
    if (verdict === '') stopped[stopped.length] = row;
  };
  // Checks the clock after the records before index j. Returns the index before which to check again. When a group of
  // records took too long, each of them counts as slow; each is then run alone and judged by its own time.
  const checkClock = (j) => {
    const time = wallClock(), took = time - groupBegan;
    for (; took > SLOW_MS && timedUpTo < j; timedUpTo++) slow[slow.length] = todo === null ? timedUpTo : todo[timedUpTo];
    timedUpTo = j; groupBegan = time;
    return j + (waits || took > SLOW_MS / TIMED_TOGETHER ? 1 : TIMED_TOGETHER);
  };
  // Moves all outputs to the frame RESULTS. V8 can't interrupt between the return of `writeLines` and the assignments.
  const flushOutputs = () => {
    if (outputs.length === 0) return;
    const reached = writeLines(written, join(outputs, '\n'));
    written = reached; movedCount += outputs.length; outputs = [];
    // Records that were flushed are not dropped by a timeout that comes now.
    currentCall.row = movedCount;
  };
  const pass = () => {
    asking = []; stopped = []; askedUnits = 0; passes += 1; part = -1; nextRow = 0; timedUpTo = 0; groupBegan = passBegan = wallClock();
    const count = todo === null ? end : todo.length;
    // When each record runs only once, check the clock after each record, because it can't be run again to measure it.
    let j = 0, look = waits ? 1 : TIMED_TOGETHER;
    for (; j < count; j++) {
      if (j === look) look = checkClock(j);
      const row = todo === null ? j : todo[j];
      if (row >= end) break;
      if ((waits || isDryRun) && row > 0 && (groupBegan - passBegan > SOFT_LIMIT_MS || units > MAX_UNITS_BEFORE)) { end = row; break; }
      if (row >= nextRow) loadPartOf(row);
      if (trace !== null) trace(row);
      const output = run(row);
      if (isDryRun) { if (askedUnits > MAX_ASKED_UNITS) break; continue; }
      if (!waits && row > 0 && (units + output.length > MAX_BATCH_UNITS || askedUnits > MAX_ASKED_UNITS)) { end = row; break; }
      keep(row, output);
      if (todo === null && outputs.length === FLUSHED_RECORDS && asking.length === 0) flushOutputs();
    }
    currentCall.row = -1;
    checkClock(j);
    return question();
  };
  const question = () => {
    let text = '';
    for (let i = 0; i < asking.length; i++) {
      text += (i ? ',' : '[') + stringify(asking[i].name) + ',' + stringify(setPrototypeOf(asking[i].asked, null));
    }
    return text && text + ']';
  };
  // Returns the rows that are set in a byte array, in order.
  const rowsOf = (marks) => {
    const rows = [];
    for (let row = byteAt(marks, 1); row >= 0; row = byteAt(marks, 1, row + 1)) rows[rows.length] = row;
    return rows;
  };
  const setRows = (marks, rows) => {
    for (let i = 0; i < rows.length; i++) if (rows[i] < end) marks[rows[i]] = 1;
  };
  const applyAnswers = (dataset, answers, wrong) => {
    dataset.answers = answers;
    dataset.state = answers === '?' ? UNKNOWN_NAME : RESOLVED;
    if (answers === '?') { setRows(wrong, dataset.rows); setRows(wrong, dataset.unnamed); }
    const { rows } = dataset, members = [];
    for (let i = indexOf(answers, '1'); i >= 0; i = indexOf(answers, '1', i + 1)) members[members.length] = rows[i];
    setRows(wrong, members);
  };
  // Keeps the answers for records that run again.
  const keepAnswers = (dataset, wrong) => {
    const { asked, rows, answers } = dataset;
    if (dataset.knownAnswers === null) dataset.knownAnswers = dictionary();
    for (let i = 0; i < rows.length; i++) if (wrong[rows[i]] === 1) dataset.knownAnswers.set(asked[i], answers[i]);
  };
  const resetQuestion = (dataset) => {
    dataset.isAsked = false;
    dataset.asked = []; dataset.rows = []; dataset.unnamed = [];
  };
  const logText = (lines) => {
    let text = '';
    for (let i = 0; lines !== null && i < lines.length && logged < MAX_LOG_LINES; i++, logged++) text += stringify(lines[i]) + '\n';
    return text;
  };
  const scheduleRetries = (wrong) => {
    todo = rowsOf(wrong);
    for (let i = 0; i < todo.length; i++) {
      units -= outputs[todo[i] - movedCount].length;
      outputs[todo[i] - movedCount] = '';
    }
    if (passes >= MAX_PASSES) { unfinished = todo; todo = []; }
  };

  return {
    __proto__: null,
    setScript(found) { script = found; },
    // read(number): returns a part of the batch's text; write(at, lines): writes lines into the frame RESULTS and returns
    // its end; wait(question): blocks for the answers to a question.
    connect(read, write, wait) { readPart = read; writeLines = write; askSync = wait; },
    seal,
    describe,
    // Whether an error says that a script declares an `Error` of its own.
    saysErrorIsDeclared: (error) => isError(error) && textOf(error, 'message') === "Identifier 'Error' has already been declared",
    // From now on the first use of the time or a random number is noted. `outsideUse` returns it as an error line, or ''.
    watchTopLevel() { currentCall.isWatched = true; },
    outsideUse() {
      const { topLevelUse } = currentCall;
      currentCall.isWatched = false;
      return topLevelUse === null ? '' : errorLine('OutsideOfRecord', topLevelUse.what, topLevelUse.stack);
    },
    trace(report) { trace = report; },
    // Prepares `pass`, which may be interrupted before the first record. head: JSON with the number of records, and for each
    // row with long integers the row and their offsets; text: the record columns as JSON, which few scripts need.
    begin(head, text, isAlone, isFromScript, toScript, mustWait) {
      const long = parse(head);
      let parsed = null;
      columns = currentCall.columns = () => parsed === null ? parsed = parse(text) : parsed;
      end = long[0]; firsts = [0];
      longIntegerOffsets = fill(new NativeArray(end), 0);
      for (let i = 1; i < long.length; i += 2) longIntegerOffsets[long[i]] = long[i + 1];
      outputs = []; movedCount = 0; written = FRAME_HEADER_BYTES; slow = []; logs = todo = null; datasets = dictionary();
      alone = isAlone; waits = mustWait; isDryRun = false; inputFromScript = isFromScript; feedsScript = toScript;
      interrupted = false; passes = 0; units = 0; unfinished = [];
      beginCalls(alone);
      chooseWriter();
      asking = []; stopped = [];
    },
    // Runs all records. Returns the question to the parent, or '' when there is none.
    pass,
    // Runs the records only to collect their questions. Returns the same as `pass`.
    dryRun() { isDryRun = true; return pass(); },
    // Returns the question of an interrupted rehearsal.
    asked() { currentCall.row = -1; return question(); },
    // Stores the answers to the question of a rehearsal.
    preloadAnswers(text, answers) {
      const parts = parse(text), lines = split(answers, '\n');
      for (let i = 0; i < lines.length; i++) {
        const dataset = newDataset(parts[2 * i]), values = parts[2 * i + 1], answer = lines[i];
        dataset.state = answer === '?' ? UNKNOWN_NAME : RESOLVED;
        dataset.knownAnswers = dictionary();
        for (let j = 0; j < values.length && answer !== '?'; j++) dataset.knownAnswers.set(values[j], answer[j]);
      }
    },
    // Sets the current batch aside until its answers arrive.
    suspend() {
      const batch = {
        __proto__: null, firsts, columns, longIntegerOffsets, slow, logs, outputs, movedCount, written, datasets, end, interrupted, passes, units,
        alone, inputFromScript, feedsScript, todo, stopped, asking, next: null,
      };
      if (oldest === null) oldest = batch; else newest.next = batch;
      newest = batch;
    },
    // Makes the batch that was set aside first the current one again.
    resume() {
      const batch = oldest;
      oldest = batch.next;
      if (oldest === null) newest = null;
      ({ firsts, columns, longIntegerOffsets, slow, logs, outputs, movedCount, written, datasets, end, interrupted, passes, units } = batch);
      ({ alone, inputFromScript, feedsScript, todo, stopped, asking } = batch);
      waits = isDryRun = false; unfinished = [];
      beginCalls(alone);
      chooseWriter();
      currentCall.columns = columns;
    },
    // Applies the answers to the last question, and runs the records again for which `flow.contains` had returned a
    // wrong value.
    answer(text) {
      const lines = split(text, '\n'), wrong = new Bytes(end);
      setRows(wrong, stopped);
      for (let i = 0; i < asking.length; i++) applyAnswers(asking[i], lines[i], wrong);
      scheduleRetries(wrong);
      for (let i = 0; i < asking.length; i++) {
        if (todo.length) keepAnswers(asking[i], wrong);
        resetQuestion(asking[i]);
      }
      return todo.length ? pass() : '';
    },
    // After a timeout: drops the record that was running, and the records after it. Returns the same as `pass`.
    truncate() {
      const row = currentCall.row;
      currentCall.row = -1;
      if (row >= 0) checkClock(todo === null ? row : rowAt(todo, row));
      if (row < end) {
        interrupted = true;
        end = row < 0 ? 0 : row;
      }
      if (end === 0) { outputs = []; movedCount = 0; written = FRAME_HEADER_BYTES; }
      return end === 0 ? '' : question();
    },
    // Moves the remaining outputs to the frame, a line per record. Returns the summary: log lines, and then
    // "<records> <1: interrupted> <log lines> <slow rows> <unfinished rows>".
    finish() {
      const slowRows = new Bytes(end);
      let log = '';
      setRows(slowRows, slow); logged = 0;
      for (let row = 0; logs !== null && row < end; row++) log += logText(logs[row]);
      outputs.length = end - movedCount;
      flushOutputs();
      currentCall.row = -1;
      const head = end + ' ' + (interrupted ? 1 : 0) + ' ' + logged + ' ' + join(rowsOf(slowRows), ',') + ' ' + join(unfinished, ',');
      lines = firsts = columns = longIntegerOffsets = outputs = slow = logs = datasets = todo = stopped = asking = unfinished = currentCall.columns = null;
      return log + head;
    },
    // Returns the end offset of the frame RESULTS.
    written() { return written; },
  };
});
