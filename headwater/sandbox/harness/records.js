// Runs a script over batches of records, in the script's realm: reads, calls, writes, and answers `flow.contains`.
// Evaluates to a function that takes the realm's handles and returns what the outer harness calls.
//
// A call of `flow.contains` with values that are not known yet is answered false, and the values are noted. After all
// records have run, the parent is asked for all noted values at once, and the records that got a wrong answer run again.
// Only answers to these records are remembered: a map of all values would cost more than asking for some of them twice.
//
// Where a record must run only once, the script waits for each answer: when the script keeps state from record to record,
// which may hold an assumed answer, and when a record runs alone. What such a script is likely to ask is found out before,
// by a rehearsal in another realm.
((realm) => {
  'use strict';
  const { uncurry, isArray, parse, stringify, hidden, freeze, create, slice, indexOf, match, Text } = realm;
  const { withExact, stringifyMarked, stringifyCarefully, parseMarked, noticeCircle, beginCalls, asNative, SPACES } = realm;
  const { wallClock, seal, call, FROZEN } = realm;
  const NativeArray = Array, Bytes = Uint8Array, NativeMap = Map, Wrong = TypeError, { setPrototypeOf } = Object, { isView } = ArrayBuffer;
  const isError = Error.isError;
  const split = uncurry(String.prototype.split), tagOf = uncurry(Object.prototype.toString);
  const join = uncurry(Array.prototype.join), fill = uncurry(Array.prototype.fill), rowAt = uncurry(Array.prototype.indexOf);
  const byteAt = uncurry(Uint8Array.prototype.indexOf);
  const numberText = uncurry(Number.prototype.toString), bigText = uncurry(BigInt.prototype.toString);

  const MAX_VALUES = 1000, MAX_UNKNOWN = 64, MAX_PASSES = 16;
  // A rehearsal, and a run that waits for answers, end after a record when so much time is over.
  const ENOUGH_MS = 125;
  // Stored values have 1 to 1,024 characters, of at most two UTF-16 units each.
  const MAX_VALUE_UNITS = 2048, MAX_NAME_UNITS = 400;
  const MAX_OUTPUTS = 1000, MAX_OUTPUT_UNITS = 1000000, MAX_OUTPUTS_UNITS = 8000000;
  // A third of 32 MB: a UTF-16 unit takes up to three bytes. One record's outputs always fit.
  const MAX_BATCH_UNITS = 11000000, MAX_ASKED_UNITS = 4000000, MAX_UNITS_BEFORE = MAX_BATCH_UNITS - MAX_OUTPUTS_UNITS;
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

  let script = null, trace = null, source = null, put = null, ask = null;
  // One batch. Its text comes in parts. firsts: their first rows; lines: those of the part at hand, from row `first` to the
  // one before `ahead`. places: per row 0, or where numbers of 16 digits and more begin.
  let firsts = null, part = 0, lines = null, first = 0, ahead = 0;
  let columns = null, places = null, slow = null, logs = null, datasets = null;
  // waits: `flow.contains` is answered the truth at once. unfinished: rows whose questions depend on too many answers.
  let end = 0, waits = false, rehearses = false, interrupted = false, passes = 0, units = 0, unfinished = null, began = 0;
  // Whether a script made the batch's records, and whether another one gets what is made of them.
  let fromScript = false, feedsScript = false, alone = false, write = stringify;
  const chooseWriter = () => { write = feedsScript ? stringifyMarked : call.careful ? stringifyCarefully : stringify; };
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
    try { return stringifyCarefully(value) || ''; } catch { return ''; }
  };
  const BIGINT_ADVICE = '. Integers beyond 2^53 - 1 come as BigInt: convert with Number(x), or with BigInt(x) on both sides';
  const ofBigInt = /^Cannot (mix BigInt and other types|convert a BigInt value to a number)/;
  // The engine says the same of objects that a script has frozen itself, and often does not name the object.
  const ofFrozen = /^Cannot (?:assign to read only property|delete property|(?:add|define) property|redefine property:) (?!'?\d)/;
  const ofBuiltIn = /^Cannot (?:assign to read only|delete) property '.*' of (?:object |function )?'?(?:\[object (?!Object\])\w+\]|.*\[native code\] \})'?$/s;
  const explained = (message) => {
    noticeCircle(message);
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
  // Fails where the stack has no room for what the outer harness calls, which would fail with an error of its own realm.
  const STACK_FRAMES = 200;
  const requireStack = (frames) => frames > 0 && requireStack(frames - 1);
  // Asks for what is not known, and waits for the answer.
  const isMember = (dataset, values, count) => {
    if (dataset.facts === null) dataset.facts = dictionary();
    const { facts } = dataset, unknown = newTo(facts, values, count), asked = [];
    if (unknown === null) return true;
    for (let i = 0; i < unknown.length; i++) {
      if (unknown[i] !== '' && unknown[i].length <= MAX_VALUE_UNITS) asked[asked.length] = unknown[i];
    }
    if (asked.length === 0 && dataset.state === RESOLVED) return false;
    requireStack(STACK_FRAMES);
    const answers = ask('[' + stringify(dataset.name) + ',' + stringify(setPrototypeOf(asked, null)) + ']');
    dataset.state = answers === '?' ? UNKNOWN_NAME : RESOLVED;
    if (answers === '?') noDataset(dataset.name);
    for (let i = 0; i < asked.length; i++) facts.set(asked[i], answers[i]);
    return indexOf(answers, '1') >= 0;
  };
  const contains = (name, values) => {
    if (typeof name !== 'string' || !isArray(values)) throw new Wrong('flow.contains(name, values) takes a string and an array');
    let count = values.length;
    if (!(count <= MAX_VALUES)) throw new Wrong('flow.contains: more than 1000 values');
    if (datasets === null) throw new Wrong('flow.contains works while a record is processed only');
    if (noted >= MAX_VALUES) throw HALT; // the script caught the last one
    const dataset = datasetOf(name), before = noted, { asked, rows, facts } = dataset;
    if (waits) return isMember(dataset, values, count);
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
    if (noted > MAX_UNKNOWN) { verdict = ''; throw HALT; }
    return false;
  };
  const flow = create(null);
  flow.contains = freeze(asNative(contains, 'contains', 2));
  hidden(globalThis, 'flow', freeze(flow));

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
  const refuse = (what) =>
    fail('InvalidOutput', 'process returned ' + what + ': return the record to keep it, null to drop it, or an array of records');
  const withArticle = (noun) => (match(/^[AEIO]/i, noun) === null ? 'a ' : 'an ') + noun;
  // Of a Map, an Error or a generator nothing is left as JSON; of an array of numbers, its places.
  const requirePlain = (output, place) => {
    const kind = slice(tagOf(output), 8, -1);
    if (place === undefined ? kind !== 'Object' : isView(output)) refuse(withArticle(kind));
  };
  // Whether a text is too large without its marks, each of which takes two units.
  const requireRoom = (text) => {
    if (text.length - (feedsScript ? 2 * call.marks : 0) > MAX_OUTPUT_UNITS) fail('OutputTooLarge', 'the returned record is larger than 1,000,000 bytes');
  };
  const writeOne = (output) => {
    if (typeof output !== 'object' || output === null) refuse(withArticle(typeof output));
    if (typeof output.then === 'function') refuse('a Promise, for which nothing waits');
    const text = write(output);
    if (typeof text !== 'string' || text[0] !== '{') refuse(isArray(output) ? 'an array in an array' : 'an object that is none as JSON');
    const third = text[2];
    if (third === undefined || third === '0') requirePlain(output, third);
    if (text.length > MAX_OUTPUT_UNITS) requireRoom(text);
    return feedsScript && call.marks !== 0 ? slice(SPACES, 0, call.marks) + text : text;
  };
  const writeAll = (result) => {
    let text = '', count = 0, size = 0;
    for (let i = 0; i < result.length; i++) {
      const output = result[i];
      if (output === null || output === undefined) continue;
      count += 1;
      if (count > MAX_OUTPUTS) fail('InvalidOutput', 'process returned more than 1,000 records for one');
      const one = writeOne(output);
      size += one.length - (feedsScript ? 2 * call.marks : 0);
      if (size > MAX_OUTPUTS_UNITS + SPACES.length * count) fail('OutputTooLarge', 'the returned records are larger than 8,000,000 bytes together');
      text += (count > 1 ? '\t' : '') + one;
    }
    return text;
  };
  // Without a JIT each call of a function of ours costs as much as a few lines of this one.
  const run = (row) => {
    noted = 0; verdict = null;
    call.row = row; call.seeded = false; call.lines = null;
    let output = '', isRead = false;
    try {
      const text = lines[row - first], record = fromScript && text[0] === ' ' ? parseMarked(text) : parse(text);
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
    return j + (waits || took > SLOW_MS / TIMED_TOGETHER ? 1 : TIMED_TOGETHER);
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
    asking = []; stopped = []; askedUnits = 0; passes += 1; part = -1; ahead = 0; timed = 0; since = began = wallClock();
    const count = todo === null ? end : todo.length;
    // A record that runs once is looked at alone, since it can't be tried once more beside its neighbours.
    let j = 0, look = waits ? 1 : TIMED_TOGETHER;
    for (; j < count; j++) {
      if (j === look) look = lookAtTime(j);
      const row = todo === null ? j : todo[j];
      if (row >= end) break;
      if ((waits || rehearses) && row > 0 && (since - began > ENOUGH_MS || units > MAX_UNITS_BEFORE)) { end = row; break; }
      if (row >= ahead) turnTo(row);
      if (trace !== null) trace(row);
      const output = run(row);
      if (rehearses) { if (askedUnits > MAX_ASKED_UNITS) break; continue; }
      if (!waits && row > 0 && (units + output.length > MAX_BATCH_UNITS || askedUnits > MAX_ASKED_UNITS)) { end = row; break; }
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
    todo = marked(wrong);
    for (let i = 0; i < todo.length; i++) {
      units -= outputs[todo[i] - left].length;
      outputs[todo[i] - left] = '';
    }
    if (passes >= MAX_PASSES) { unfinished = todo; todo = []; }
  };

  return {
    __proto__: null,
    setScript(found) { script = found; },
    // read(number): a part of the batch's text; write(at, lines): puts lines into the frame of results, returns its end;
    // wait(question): the answers to a question that the script waits for.
    connect(read, write, wait) { source = read; put = write; ask = wait; },
    seal,
    describe,
    // Whether an error says that a script declares an `Error` of its own.
    saysErrorIsDeclared: (error) => isError(error) && textOf(error, 'message') === "Identifier 'Error' has already been declared",
    // From now on the first use of the time or a random number is noted, until `outsideUse` is asked: an error line, or ''.
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
    begin(head, text, isAlone, isFromScript, feeds, mustWait) {
      const long = parse(head);
      let parsed = null;
      columns = call.columns = () => parsed === null ? parsed = parse(text) : parsed;
      end = long[0]; firsts = [0];
      places = fill(new NativeArray(end), 0);
      for (let i = 1; i < long.length; i += 2) places[long[i]] = long[i + 1];
      outputs = []; left = 0; written = FRAME; slow = []; logs = todo = null; datasets = dictionary();
      alone = isAlone; waits = mustWait; rehearses = false; fromScript = isFromScript; feedsScript = feeds;
      interrupted = false; passes = 0; units = 0; unfinished = [];
      beginCalls(alone);
      chooseWriter();
      asking = []; stopped = [];
    },
    // Runs all records. Returns the question to the parent, or '' when there is none.
    pass,
    // Runs records for what they ask, and forgets what they make. Returns as `pass` does.
    rehearse() { rehearses = true; return pass(); },
    // What was asked in a rehearsal that was interrupted.
    asked() { call.row = -1; return question(); },
    // Answers to questions that a rehearsal found.
    know(text, answers) {
      const parts = parse(text), lines = split(answers, '\n');
      for (let i = 0; i < lines.length; i++) {
        const dataset = newDataset(parts[2 * i]), values = parts[2 * i + 1], answer = lines[i];
        dataset.state = answer === '?' ? UNKNOWN_NAME : RESOLVED;
        dataset.facts = dictionary();
        for (let j = 0; j < values.length && answer !== '?'; j++) dataset.facts.set(values[j], answer[j]);
      }
    },
    // Sets the batch aside that has asked, until its answers come.
    suspend() {
      const batch = {
        __proto__: null, firsts, columns, places, slow, logs, outputs, left, written, datasets, end, interrupted, passes, units,
        alone, fromScript, feedsScript, todo, stopped, asking, next: null,
      };
      if (oldest === null) oldest = batch; else newest.next = batch;
      newest = batch;
    },
    // Goes on with the batch that was set aside first.
    resume() {
      const batch = oldest;
      oldest = batch.next;
      if (oldest === null) newest = null;
      ({ firsts, columns, places, slow, logs, outputs, left, written, datasets, end, interrupted, passes, units } = batch);
      ({ alone, fromScript, feedsScript, todo, stopped, asking } = batch);
      waits = rehearses = false; unfinished = [];
      beginCalls(alone);
      chooseWriter();
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
      if (row < end) {
        interrupted = true;
        end = row < 0 ? 0 : row;
      }
      if (end === 0) { outputs = []; left = 0; written = FRAME; }
      return end === 0 ? '' : question();
    },
    // Puts the outputs that are left into the frame: a line per record. Returns their summary: log lines, and then
    // "<records> <1: interrupted> <log lines> <slow rows> <unfinished rows>".
    finish() {
      const slowRows = new Bytes(end);
      let log = '';
      mark(slowRows, slow); logged = 0;
      for (let row = 0; logs !== null && row < end; row++) log += logText(logs[row]);
      outputs.length = end - left;
      leave();
      call.row = -1;
      const head = end + ' ' + (interrupted ? 1 : 0) + ' ' + logged + ' ' + join(marked(slowRows), ',') + ' ' + join(unfinished, ',');
      lines = firsts = columns = places = outputs = slow = logs = datasets = todo = stopped = asking = unfinished = call.columns = null;
      return log + head;
    },
    // Where the frame of results ends.
    written() { return written; },
  };
});
