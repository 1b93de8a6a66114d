// Runs a script over segments of the parent's batches, in the script's realm: parses records, calls the script, writes
// its outputs, and answers `flow.contains`. A row is the index of a record in its segment.
// Evaluates to a function that takes `helpers` and returns the functions for main.js.
// `flow.contains` returns false for values whose answer is not known yet, and collects them. A pass runs all records whose
// output is not final. After a pass, one lookup request asks the parent for all collected values, and the records that
// got a wrong answer run again in the next pass. Only the answers to these records are kept: a map of all values would
// cost more than a second lookup of some of them. A record must run only once when the script keeps state, which could
// depend on an assumed answer, and when the record runs alone. The script then blocks for each answer. A dry run in
// another realm finds beforehand the values that a blocking script will probably look up.
((helpers) => {
  'use strict';
  const { uncurry, isArray, parse, stringify, hidden, freeze, create, slice, indexOf, match, NativeString } = helpers;
  const { restoreLongIntegers, stringifyMarked, stringifySlowPath, parseMarked, noteCircularReference, beginCalls, asNative, SPACES } = helpers;
  const { wallClock, seal, currentCall, FROZEN } = helpers;
  const NativeArray = Array, Bytes = Uint8Array, NativeMap = Map, NativeTypeError = TypeError, { setPrototypeOf } = Object, { isView } = ArrayBuffer;
  const isError = Error.isError;
  const split = uncurry(String.prototype.split), tagOf = uncurry(Object.prototype.toString);
  const join = uncurry(Array.prototype.join), fill = uncurry(Array.prototype.fill), indexInArray = uncurry(Array.prototype.indexOf);
  const byteAt = uncurry(Uint8Array.prototype.indexOf);
  const numberText = uncurry(Number.prototype.toString), bigText = uncurry(BigInt.prototype.toString);

  const MAX_VALUES = 1000, MAX_PASSES = 16;
  // A call of the script that has requested more values than this is stopped, and runs again with the answers.
  const MAX_REQUESTED_BEFORE_STOP = 64;
  // A run with synchronous lookups stops after the current record once this much time has passed. A dry run does so
  // too, but V8 interrupts it earlier (DRY_RUN_LIMIT_MS in main.js).
  const SOFT_LIMIT_MS = 125;
  // Stored values have 1 to 1,024 characters, of at most two UTF-16 units each.
  const MAX_VALUE_UNITS = 2048, MAX_NAME_UNITS = 400;
  const MAX_OUTPUTS = 1000, MAX_OUTPUT_UNITS = 1000000, MAX_TOTAL_OUTPUT_UNITS = 8000000;
  // A third of 32 MB: a UTF-16 unit takes up to three bytes. One record's outputs always fit.
  const MAX_SEGMENT_UNITS = 11000000, MAX_REQUESTED_UNITS = 4000000, MAX_UNITS_BEFORE_NEXT_RECORD = MAX_SEGMENT_UNITS - MAX_TOTAL_OUTPUT_UNITS;
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

  let processFunction = null, trace = null, readPart = null, writeLines = null, lookUpSync = null;
  // The current segment. Its text is read in parts. partFirstRows: the first row of each part; partLines: the lines of
  // the current part, from the row `partFirstRow` to the row before `partEndRow`. longIntegerOffsets: for each row the
  // offsets at which integers of 16 digits or more begin, or 0 when it has none.
  let partFirstRows = null, partNumber = 0, partLines = null, partFirstRow = 0, partEndRow = 0;
  let columns = null, longIntegerOffsets = null, slowRows = null, logs = null, datasets = null;
  // blocksForLookups: whether `flow.contains` blocks until it has the true answer. outputUnits: the UTF-16 units of all
  // outputs. unfinishedRows: rows without a final output after MAX_PASSES.
  let rowCount = 0, blocksForLookups = false, isDryRun = false, interrupted = false;
  let passCount = 0, passBegan = 0, outputUnits = 0, unfinishedRows = null;
  // inputFromScript: whether another script wrote the records; feedsScript: whether the outputs go to another script;
  // runsAlone: whether the segment is one record that runs alone (ALONE in main.js).
  let inputFromScript = false, feedsScript = false, runsAlone = false, writeJson = stringify;
  const chooseWriter = () => { writeJson = feedsScript ? stringifyMarked : currentCall.useSlowPath ? stringifySlowPath : stringify; };
  // The results of the current segment. flushedCount: the number of outputs in the frame RESULTS, which ends at
  // `resultsEnd`; outputs: the other outputs.
  let outputs = null, flushedCount = 0, resultsEnd = FRAME_HEADER_BYTES, loggedCount = 0;
  // The current pass. rowsToRun: its rows, or null for all; stoppedRows: the rows that run again whatever the answers are;
  // groupStartIndex: the first of the records that are timed together; groupStartMs: the clock before this record.
  let rowsToRun = null, stoppedRows = null, requestedDatasets = null, requestedUnits = 0, groupStartIndex = 0, groupStartMs = 0;
  // Segments that wait for answers, a linked list from the oldest to the newest.
  let oldest = null, newest = null;
  // The current call. requestedCount: the number of values that it requested. forcedOutput: the output of this call,
  // even if the script catches STOP_SIGNAL; '' means that the call was stopped and the record has to run again.
  let requestedCount = 0, forcedOutput = null;

  // ---- errors ----

  const fail = (name, message) => {
    forcedOutput = errorLine(name, message, '');
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
  const BIGINT_ERROR = /^Cannot (mix BigInt and other types|convert a BigInt value to a number)/;
  // V8 has the same message for objects that a script has frozen itself, and often does not name the object.
  const FROZEN_ERROR = /^Cannot (?:assign to read only property|delete property|(?:add|define) property|redefine property:) (?!'?\d)/;
  const BUILT_IN_ERROR = /^Cannot (?:assign to read only|delete) property '.*' of (?:object |function )?'?(?:\[object (?!Object\])\w+\]|.*\[native code\] \})'?$/s;
  const explained = (message) => {
    noteCircularReference(message);
    chooseWriter();
    if (match(BIGINT_ERROR, message) !== null) return message + BIGINT_ADVICE;
    if (match(FROZEN_ERROR, message) === null) return message;
    return message + (match(BUILT_IN_ERROR, message) === null ? '. If this is a built-in: ' : ': ') + FROZEN;
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
  const failUnknownDataset = (name) => fail('UnknownDataset', 'flow.contains: you have no dataset ' + stringify(name));
  // requested: the values of this pass; rows: the row of each value; rowsWithoutValues: the rows that requested without
  // a value, for which only the existence of the dataset matters; knownAnswers: the answers for records that run again.
  const newDataset = (name) => {
    const dataset = {
      name, state: NOT_RESOLVED, isRequested: false, requested: [], rows: [], rowsWithoutValues: [], answers: '', knownAnswers: null,
    };
    datasets.set(name, dataset);
    return dataset;
  };
  const getOrAddDataset = (name) => {
    if (name.length > MAX_NAME_UNITS) failUnknownDataset(name);
    const dataset = datasets.get(name);
    if (dataset === undefined) return newDataset(name);
    if (dataset.state === UNKNOWN_NAME) failUnknownDataset(name);
    return dataset;
  };
  const addToRequest = (dataset) => {
    dataset.isRequested = true;
    requestedDatasets[requestedDatasets.length] = dataset;
    requestedUnits += dataset.name.length;
  };
  const requestName = (dataset) => {
    if (!dataset.isRequested) addToRequest(dataset);
    dataset.rowsWithoutValues[dataset.rowsWithoutValues.length] = currentCall.row;
    requestedCount += 1;
  };
  // Returns the values without a known answer; null if one of the known values is a member.
  const unknownValues = (knownAnswers, values, count) => {
    const unknown = [];
    for (let i = 0; i < count; i++) {
      const value = textOfValue(values[i]), answer = knownAnswers.get(value);
      if (answer === '1') return null;
      if (answer === undefined) unknown[unknown.length] = value;
    }
    return unknown;
  };
  // Throws RangeError here if the stack is nearly full. Otherwise the overflow would happen in the outer realm and leak
  // one of its error objects.
  const STACK_FRAMES = 200;
  const requireStack = (frames) => frames > 0 && requireStack(frames - 1);
  // Looks up the values without a known answer, and blocks until the answers arrive.
  const isMember = (dataset, values, count) => {
    if (dataset.knownAnswers === null) dataset.knownAnswers = dictionary();
    const { knownAnswers } = dataset, unknown = unknownValues(knownAnswers, values, count), requested = [];
    if (unknown === null) return true;
    for (let i = 0; i < unknown.length; i++) {
      if (unknown[i] !== '' && unknown[i].length <= MAX_VALUE_UNITS) requested[requested.length] = unknown[i];
    }
    if (requested.length === 0 && dataset.state === RESOLVED) return false;
    requireStack(STACK_FRAMES);
    const answers = lookUpSync('[' + stringify(dataset.name) + ',' + stringify(setPrototypeOf(requested, null)) + ']');
    dataset.state = answers === '?' ? UNKNOWN_NAME : RESOLVED;
    if (answers === '?') failUnknownDataset(dataset.name);
    for (let i = 0; i < requested.length; i++) knownAnswers.set(requested[i], answers[i]);
    return indexOf(answers, '1') >= 0;
  };
  const contains = (name, values) => {
    if (typeof name !== 'string' || !isArray(values)) throw new NativeTypeError('flow.contains(name, values) takes a string and an array');
    let count = values.length;
    if (!(count <= MAX_VALUES)) throw new NativeTypeError('flow.contains: more than 1000 values');
    if (datasets === null) throw new NativeTypeError('flow.contains works only while a record is processed');
    if (requestedCount >= MAX_VALUES) throw STOP_SIGNAL; // The script caught the previous stop signal.
    const dataset = getOrAddDataset(name), before = requestedCount, { requested, rows, knownAnswers } = dataset;
    if (blocksForLookups) return isMember(dataset, values, count);
    if (knownAnswers !== null) {
      values = unknownValues(knownAnswers, values, count);
      if (values === null) return true;
      count = values.length;
    }
    for (let i = 0; i < count; i++) {
      let value = values[i];
      if (typeof value !== 'string') value = textOfValue(value);
      if (value === '' || value.length > MAX_VALUE_UNITS) continue;
      if (!dataset.isRequested) addToRequest(dataset);
      rows[requested.length] = currentCall.row;
      requested[requested.length] = value;
      requestedUnits += value.length;
      requestedCount += 1;
    }
    if (dataset.state === NOT_RESOLVED && requestedCount === before) requestName(dataset);
    if (requestedCount > MAX_REQUESTED_BEFORE_STOP) { forcedOutput = ''; throw STOP_SIGNAL; }
    return false;
  };
  const flow = create(null);
  flow.contains = freeze(asNative(contains, 'contains', 2));
  hidden(globalThis, 'flow', freeze(flow));

  // ---- one record ----

  // Rows are visited in ascending order; `partFirstRows` of all parts up to the current one is known from this pass or an
  // earlier one.
  const loadPartOf = (row) => {
    do partNumber += 1; while (partFirstRows[partNumber + 1] <= row);
    partLines = split(readPart(partNumber), '\n');
    partFirstRow = partFirstRows[partNumber];
    partEndRow = partFirstRows[partNumber + 1] = partFirstRow + partLines.length;
  };
  const requireObject = (record) => {
    if (typeof record !== 'object' || record === null || isArray(record)) fail('NotAnObject', 'the record is no JSON object');
  };
  const refuse = (what) =>
    fail('InvalidOutput', 'process returned ' + what + ': return the record to keep it, null to drop it, or an array of records');
  const withArticle = (noun) => (match(/^[AEIO]/i, noun) === null ? 'a ' : 'an ') + noun;
  // A Map, an Error or a generator becomes `{}` in JSON, and a typed array an object with index keys: refuse both.
  const requirePlain = (output, isEmpty) => {
    const kind = slice(tagOf(output), 8, -1);
    if (isEmpty ? kind !== 'Object' : isView(output)) refuse(withArticle(kind));
  };
  // Fails if a text is too large without its marks, each of which takes two units.
  const requireRoom = (text) => {
    if (text.length - (feedsScript ? 2 * currentCall.marks : 0) > MAX_OUTPUT_UNITS) fail('OutputTooLarge', 'the returned record is larger than 1,000,000 bytes');
  };
  const writeOne = (output) => {
    if (typeof output !== 'object' || output === null) refuse(withArticle(typeof output));
    if (typeof output.then === 'function') refuse('a Promise, for which nothing waits');
    const text = writeJson(output);
    if (typeof text !== 'string' || text[0] !== '{') refuse(isArray(output) ? 'an array in an array' : 'an object whose JSON is not an object');
    // The text is `{}` or begins with `{"0`, as the text of a Map or of a typed array does.
    const isEmpty = text.length === 2;
    if (isEmpty || text[2] === '0') requirePlain(output, isEmpty);
    if (text.length > MAX_OUTPUT_UNITS) requireRoom(text);
    return feedsScript && currentCall.marks !== 0 ? slice(SPACES, 0, currentCall.marks) + text : text;
  };
  const writeAll = (result) => {
    let text = '', count = 0, size = 0;
    for (let i = 0; i < result.length; i++) {
      const output = result[i];
      if (output === null || output === undefined) continue;
      count += 1;
      if (count > MAX_OUTPUTS) fail('InvalidOutput', 'process returned more than 1,000 records for one record');
      const outputText = writeOne(output);
      size += outputText.length - (feedsScript ? 2 * currentCall.marks : 0);
      // The spaces before marked records do not count.
      if (size > MAX_TOTAL_OUTPUT_UNITS + SPACES.length * count) fail('OutputTooLarge', 'the returned records are larger than 8,000,000 bytes together');
      text += (count > 1 ? '\t' : '') + outputText;
    }
    return text;
  };
  // One long function, because without a JIT a function call costs as much as a few of its lines.
  const processRecord = (row) => {
    requestedCount = 0; forcedOutput = null;
    currentCall.row = row; currentCall.seeded = false; currentCall.lines = null;
    let output = '', isRead = false;
    try {
      const text = partLines[row - partFirstRow], record = inputFromScript && text[0] === ' ' ? parseMarked(text) : parse(text);
      isRead = true;
      if (text[0] !== '{') requireObject(record);
      const result = processFunction(longIntegerOffsets[row] === 0 ? record : restoreLongIntegers(record, text, longIntegerOffsets[row]));
      if (result !== undefined && result !== null) output = isArray(result) ? writeAll(result) : writeOne(result);
    } catch (error) {
      if (forcedOutput === null) output = isRead ? describe(error) : errorLine('InvalidJSON', textOf(error, 'message'), '');
    }
    return forcedOutput === null ? output : forcedOutput;
  };

  // ---- one pass over the records that have no final output yet ----

  const storeLogLines = (row) => {
    if (logs === null) logs = fill(new NativeArray(rowCount), null);
    logs[row] = currentCall.lines;
  };
  const storeOutput = (row, output) => {
    outputs[row - flushedCount] = output;
    outputUnits += output.length;
    if (logs !== null || currentCall.lines !== null) storeLogLines(row);
    if (forcedOutput === '') stoppedRows[stoppedRows.length] = row;
  };
  // Checks the clock when the records before index j have run. Returns the index before which to check again. When a group of
  // records took too long, each of them counts as slow; each is then run alone and judged by its own time.
  const checkClock = (j) => {
    const time = wallClock(), took = time - groupStartMs;
    for (; took > SLOW_MS && groupStartIndex < j; groupStartIndex++) {
      slowRows[slowRows.length] = rowsToRun === null ? groupStartIndex : rowsToRun[groupStartIndex];
    }
    groupStartIndex = j; groupStartMs = time;
    return j + (blocksForLookups || took > SLOW_MS / TIMED_TOGETHER ? 1 : TIMED_TOGETHER);
  };
  // Moves all outputs to the frame RESULTS. V8 can't interrupt between the return of `writeLines` and the assignments.
  const flushOutputs = () => {
    if (outputs.length === 0) return;
    const newEnd = writeLines(resultsEnd, join(outputs, '\n'));
    resultsEnd = newEnd; flushedCount += outputs.length; outputs = [];
    // Records that were flushed are not dropped by a timeout that comes now.
    currentCall.row = flushedCount;
  };
  const pass = () => {
    requestedDatasets = []; stoppedRows = []; requestedUnits = 0; passCount += 1; partNumber = -1; partEndRow = 0; groupStartIndex = 0;
    groupStartMs = passBegan = wallClock();
    const count = rowsToRun === null ? rowCount : rowsToRun.length;
    // When each record runs only once, check the clock after each record, because it can't be run again to measure it.
    let j = 0, nextCheck = blocksForLookups ? 1 : TIMED_TOGETHER;
    for (; j < count; j++) {
      if (j === nextCheck) nextCheck = checkClock(j);
      const row = rowsToRun === null ? j : rowsToRun[j];
      if (row >= rowCount) break;
      if ((blocksForLookups || isDryRun) && row > 0 && (groupStartMs - passBegan > SOFT_LIMIT_MS || outputUnits > MAX_UNITS_BEFORE_NEXT_RECORD)) {
        rowCount = row;
        break;
      }
      if (row >= partEndRow) loadPartOf(row);
      if (trace !== null) trace(row);
      const output = processRecord(row);
      if (isDryRun) { if (requestedUnits > MAX_REQUESTED_UNITS) break; continue; }
      if (!blocksForLookups && row > 0 && (outputUnits + output.length > MAX_SEGMENT_UNITS || requestedUnits > MAX_REQUESTED_UNITS)) {
        rowCount = row;
        break;
      }
      storeOutput(row, output);
      if (rowsToRun === null && outputs.length === FLUSHED_RECORDS && requestedDatasets.length === 0) flushOutputs();
    }
    currentCall.row = -1;
    checkClock(j);
    return lookupRequest();
  };
  const lookupRequest = () => {
    let text = '';
    for (let i = 0; i < requestedDatasets.length; i++) {
      text += (i ? ',' : '[') + stringify(requestedDatasets[i].name) + ',' + stringify(setPrototypeOf(requestedDatasets[i].requested, null));
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
    for (let i = 0; i < rows.length; i++) if (rows[i] < rowCount) marks[rows[i]] = 1;
  };
  const applyAnswersTo = (dataset, answers, wrong) => {
    dataset.answers = answers;
    dataset.state = answers === '?' ? UNKNOWN_NAME : RESOLVED;
    if (answers === '?') { setRows(wrong, dataset.rows); setRows(wrong, dataset.rowsWithoutValues); }
    const { rows } = dataset, members = [];
    for (let i = indexOf(answers, '1'); i >= 0; i = indexOf(answers, '1', i + 1)) members[members.length] = rows[i];
    setRows(wrong, members);
  };
  // Keeps the answers for records that run again.
  const keepAnswers = (dataset, wrong) => {
    const { requested, rows, answers } = dataset;
    if (dataset.knownAnswers === null) dataset.knownAnswers = dictionary();
    for (let i = 0; i < rows.length; i++) if (wrong[rows[i]] === 1) dataset.knownAnswers.set(requested[i], answers[i]);
  };
  const resetRequest = (dataset) => {
    dataset.isRequested = false;
    dataset.requested = []; dataset.rows = []; dataset.rowsWithoutValues = [];
  };
  const logText = (logLines) => {
    let text = '';
    for (let i = 0; logLines !== null && i < logLines.length && loggedCount < MAX_LOG_LINES; i++, loggedCount++) {
      text += stringify(logLines[i]) + '\n';
    }
    return text;
  };
  const scheduleRetries = (wrong) => {
    rowsToRun = rowsOf(wrong);
    for (let i = 0; i < rowsToRun.length; i++) {
      outputUnits -= outputs[rowsToRun[i] - flushedCount].length;
      outputs[rowsToRun[i] - flushedCount] = '';
      if (logs !== null) logs[rowsToRun[i]] = null;
    }
    if (passCount >= MAX_PASSES) { unfinishedRows = rowsToRun; rowsToRun = []; }
  };

  return {
    __proto__: null,
    setFunction(f) { processFunction = f; },
    // readPartOfText(number): returns a part of the segment's text; writeLinesOfOutputs(start, lines): writes lines
    // into the frame RESULTS and returns its end; lookUpAndBlock(lookupRequest): blocks until the answers arrive, and
    // returns them.
    connect(readPartOfText, writeLinesOfOutputs, lookUpAndBlock) {
      readPart = readPartOfText; writeLines = writeLinesOfOutputs; lookUpSync = lookUpAndBlock;
    },
    seal,
    describe,
    // Whether an error says that a script declares an `Error` of its own.
    saysErrorIsDeclared: (error) => isError(error) && textOf(error, 'message') === "Identifier 'Error' has already been declared",
    // Notes the first use of the time or of a random number at the top level. takeNondeterminism ends this, and returns the
    // use as an error line, or ''.
    watchNondeterminism() { currentCall.isWatched = true; },
    takeNondeterminism() {
      const { nondeterminism } = currentCall;
      currentCall.isWatched = false;
      return nondeterminism === null ? '' : errorLine('OutsideOfRecord', nondeterminism.what, nondeterminism.stack);
    },
    trace(report) { trace = report; },
    // Prepares the state of a segment for `pass`. All of it is set here, because V8 may interrupt `pass` before its first
    // record. longIntegersText: JSON with the number of records, and for each row with long integers the row and their
    // offsets; columnsText: the record columns as JSON, which few scripts need; mayNotAssume: whether `flow.contains` may
    // not return an assumed answer.
    begin(longIntegersText, columnsText, isAlone, isFromScript, goesToScript, mayNotAssume) {
      const longIntegers = parse(longIntegersText);
      let parsed = null;
      columns = currentCall.columns = () => parsed === null ? parsed = parse(columnsText) : parsed;
      rowCount = longIntegers[0]; partFirstRows = [0];
      longIntegerOffsets = fill(new NativeArray(rowCount), 0);
      for (let i = 1; i < longIntegers.length; i += 2) longIntegerOffsets[longIntegers[i]] = longIntegers[i + 1];
      outputs = []; flushedCount = 0; resultsEnd = FRAME_HEADER_BYTES; slowRows = []; logs = rowsToRun = null; datasets = dictionary();
      runsAlone = isAlone; blocksForLookups = mayNotAssume; isDryRun = false; inputFromScript = isFromScript; feedsScript = goesToScript;
      interrupted = false; passCount = 0; outputUnits = 0; unfinishedRows = [];
      beginCalls(runsAlone);
      chooseWriter();
      requestedDatasets = []; stoppedRows = [];
    },
    // Runs a pass. Returns the lookup request to the parent, or '' when there is nothing to look up.
    pass,
    // Runs the records only to collect the values that they look up. Returns the same as `pass`.
    dryRun() { isDryRun = true; return pass(); },
    // Returns the lookup request of an interrupted dry run.
    lookupRequest() { currentCall.row = -1; return lookupRequest(); },
    // Stores the answers to the lookup request of a dry run.
    preloadAnswers(requestText, answers) {
      const namesAndValues = parse(requestText), answerLines = split(answers, '\n');
      for (let i = 0; i < answerLines.length; i++) {
        const dataset = newDataset(namesAndValues[2 * i]), values = namesAndValues[2 * i + 1], answer = answerLines[i];
        dataset.state = answer === '?' ? UNKNOWN_NAME : RESOLVED;
        dataset.knownAnswers = dictionary();
        for (let j = 0; j < values.length && answer !== '?'; j++) dataset.knownAnswers.set(values[j], answer[j]);
      }
    },
    // Sets the current segment aside until its answers arrive.
    suspend() {
      const segment = {
        __proto__: null, partFirstRows, columns, longIntegerOffsets, slowRows, logs, outputs, flushedCount, resultsEnd, datasets,
        rowCount, interrupted, passCount, outputUnits, runsAlone, inputFromScript, feedsScript, rowsToRun, stoppedRows,
        requestedDatasets, next: null,
      };
      if (oldest === null) oldest = segment; else newest.next = segment;
      newest = segment;
    },
    // Makes the segment that was set aside first the current one again.
    resume() {
      const segment = oldest;
      oldest = segment.next;
      if (oldest === null) newest = null;
      ({ partFirstRows, columns, longIntegerOffsets, slowRows, logs, outputs, flushedCount, resultsEnd, datasets } = segment);
      ({ rowCount, interrupted, passCount, outputUnits, runsAlone, inputFromScript, feedsScript, rowsToRun } = segment);
      ({ stoppedRows, requestedDatasets } = segment);
      blocksForLookups = isDryRun = false; unfinishedRows = [];
      beginCalls(runsAlone);
      chooseWriter();
      currentCall.columns = columns;
    },
    // Applies the answers to the last lookup request, and runs the records again for which `flow.contains` had returned a
    // wrong value.
    applyAnswers(text) {
      const answerLines = split(text, '\n'), wrong = new Bytes(rowCount);
      setRows(wrong, stoppedRows);
      for (let i = 0; i < requestedDatasets.length; i++) applyAnswersTo(requestedDatasets[i], answerLines[i], wrong);
      scheduleRetries(wrong);
      for (let i = 0; i < requestedDatasets.length; i++) {
        if (rowsToRun.length) keepAnswers(requestedDatasets[i], wrong);
        resetRequest(requestedDatasets[i]);
      }
      return rowsToRun.length ? pass() : '';
    },
    // After a timeout: drops the record that was running, and the records after it. Returns the same as `pass`.
    truncate() {
      const row = currentCall.row;
      currentCall.row = -1;
      if (row >= 0) checkClock(rowsToRun === null ? row : indexInArray(rowsToRun, row));
      if (row < rowCount) {
        interrupted = true;
        rowCount = row < 0 ? 0 : row;
      }
      if (rowCount === 0) { outputs = []; flushedCount = 0; resultsEnd = FRAME_HEADER_BYTES; }
      return rowCount === 0 ? '' : lookupRequest();
    },
    // Moves the remaining outputs to the frame, a line per record. Returns the summary: log lines, and then
    // "<records> <1: interrupted> <log lines> <slow rows> <unfinished rows>".
    finish() {
      const isSlow = new Bytes(rowCount);
      let log = '';
      setRows(isSlow, slowRows); loggedCount = 0;
      for (let row = 0; logs !== null && row < rowCount; row++) log += logText(logs[row]);
      outputs.length = rowCount - flushedCount;
      flushOutputs();
      currentCall.row = -1;
      const counts = rowCount + ' ' + (interrupted ? 1 : 0) + ' ' + loggedCount;
      const countsLine = counts + ' ' + join(rowsOf(isSlow), ',') + ' ' + join(unfinishedRows, ',');
      partLines = partFirstRows = columns = longIntegerOffsets = outputs = slowRows = logs = datasets = null;
      rowsToRun = stoppedRows = requestedDatasets = unfinishedRows = currentCall.columns = null;
      return log + countsLine;
    },
    // Returns the end offset of the frame RESULTS.
    resultsEnd: () => resultsEnd,
  };
});
