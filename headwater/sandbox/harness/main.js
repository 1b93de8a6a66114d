// The main module that Deno runs. It reads frames, runs scripts in realms of their own, and writes frames.
// It never returns to the event loop, so no promise job, timer, import or operation that a script starts ever runs.
// A script gets only strings of this realm. The harness code in the script's realm also holds a few functions of this
// realm, which it never shows to the script. `SOURCES` holds the source texts of the files that run in scripts' realms.
// `stripTypeScriptTypes` is null, except in a child that validates scripts before they are saved.
import vm from 'node:vm';

// The types of frames, which frames.py explains; and the flags of SEGMENT frames, which script_batch.py explains.
const HELLO = 0, SEGMENT = 1, LOOKUP_REQUEST = 2, RESULTS = 3, LOOKUP_RESPONSE = 4, LOAD = 5, LOADED = 6, TRACE = 7;
const LOAD_FAILED = 8, HARNESS_ERROR = 9, SYNC_LOOKUP_REQUEST = 10, SYNC_LOOKUP_RESPONSE = 11, SUMMARY = 12, STRIP = 20, STRIPPED = 21;
const TRACED = 1, ALONE = 2, INPUT_FROM_SCRIPT = 4, FEEDS_SCRIPT = 8, DRY_RUN = 16;
// A script's number with this bit set is the number of its realm for dry runs (see dry_runs.py).
const DRY_RUN_REALM_BIT = 0x8000;
const TOP_LEVEL_LIMIT_MS = 1000, DRY_RUN_LIMIT_MS = 80;
const NEWLINE = 10, PART_BYTES = 1 << 16;

const { stdin, stdout, exit } = Deno;
const { destructureError } = Deno[Deno.internal].core;
const readSync = stdin.readSync.bind(stdin), writeSync = stdout.writeSync.bind(stdout);
const decoder = new TextDecoder('utf-8', { ignoreBOM: true }), encoder = new TextEncoder();
const Bytes = Uint8Array, OuterError = Error, stringify = JSON.stringify, sliceText = String.prototype.slice;
const call = Function.prototype.call.bind(Function.prototype.call);
const { createContext, Script } = vm, { DONT_CONTEXTIFY } = vm.constants, runInContext = Script.prototype.runInContext;
const secret = [...crypto.getRandomValues(new Bytes(16))].map((byte) => byte.toString(16)).join('');
const compile = (text, filename = 'harness.js', lineOffset = 0) => new Script(text, { filename, lineOffset });
const evaluate = (compiled, context, options) => call(runInContext, compiled, context, options);

const REALM = compile(SOURCES.realm_setup), RECORDS = compile(SOURCES.records);
const ADDITIONS = [SOURCES.stacks, SOURCES.builtin_class, SOURCES.web, SOURCES.console].map((text) => compile(text));
// The harness calls into a realm through this object, a lexical binding in the script's realm. Its name can be neither
// listed nor guessed.
const HOLDER_NAME = `h${secret}`, CALLBACK_HOLDER = compile(`const ${HOLDER_NAME} = { __proto__: null, callback: null }; ${HOLDER_NAME}`);
const RUN_CALLBACK = compile(`${HOLDER_NAME}.callback()`);
const FIND_FUNCTION = compile('typeof process === "function" ? process : typeof transform === "function" ? transform : undefined');

const VALIDATES = stripTypeScriptTypes !== null;

// Remove the Function constructors and most globals of this realm, so that a script that obtains one of its objects can
// do nothing with it.
for (const sample of [function () {}, async function () {}, function* () {}, async function* () {}]) {
  Object.defineProperty(Object.getPrototypeOf(sample), 'constructor', { value: null });
}
const KEPT_OUTER_GLOBALS = new Set(['Object', 'Array', 'Error', 'TypeError', 'RangeError', 'String', 'Symbol', 'Number', 'Promise', 'Map', 'Set',
  'globalThis', 'Infinity', 'NaN', 'undefined', 'Reflect', 'Uint8Array', 'ArrayBuffer', 'JSON', 'Math', 'Proxy', 'WeakMap',
  'WeakSet', 'Date', 'RegExp', 'Function', 'BigInt', 'Boolean', 'DataView']);
for (const key of Reflect.ownKeys(globalThis)) {
  // Symbols stay: `Deno.exit` needs the realm's branding symbols.
  if (typeof key === 'string' && !KEPT_OUTER_GLOBALS.has(key)) try { delete globalThis[key]; } catch { /* a few harmless constants can't be deleted */ }
}

// ---- frames ----

const HEADER_BYTES = 5;
const header = new Bytes(HEADER_BYTES);
const INITIAL_BUFFER_BYTES = 1 << 20;
let incoming = new Bytes(INITIAL_BUFFER_BYTES);
const outgoing = { bytes: new Bytes(1 << 16) }, results = { bytes: new Bytes(INITIAL_BUFFER_BYTES) };

function readExactly(buffer, length) {
  let filled = 0;
  while (filled < length) {
    const count = readSync(buffer.subarray(filled, length));
    if (!count) exit(0);
    filled += count;
  }
}

// Writes a text into a buffer, which grows if necessary. Returns the end offset.
function writeText(buffer, offset, text) {
  if (offset + text.length * 3 > buffer.bytes.length) {
    const smaller = buffer.bytes;
    buffer.bytes = new Bytes(2 * offset + text.length * 3);
    buffer.bytes.set(smaller.subarray(0, offset));
  }
  return offset + encoder.encodeInto(text, buffer.bytes.subarray(offset)).written;
}

function writeFrameHeader(kind, { bytes }, start, end) {
  bytes[start] = kind;
  for (let i = 0; i < 4; i++) bytes[start + i + 1] = (end - start - HEADER_BYTES) >>> (8 * i);
}

function writeAll({ bytes }, end) {
  let sent = 0;
  while (sent < end) sent += writeSync(bytes.subarray(sent, end));
}

function sendFrame(kind, text) {
  const end = writeText(outgoing, HEADER_BYTES, text);
  writeFrameHeader(kind, outgoing, 0, end);
  writeAll(outgoing, end);
}

// Sends the frames RESULTS and SUMMARY in one write. The lines of RESULTS are in the buffer already, up to `resultsEnd`.
function sendResults(resultsEnd, summary) {
  const end = writeText(results, resultsEnd + HEADER_BYTES, summary);
  writeFrameHeader(RESULTS, results, 0, resultsEnd);
  writeFrameHeader(SUMMARY, results, resultsEnd, end);
  writeAll(results, end);
}

function receiveFrame() {
  readExactly(header, HEADER_BYTES);
  const length = header[1] + header[2] * 0x100 + header[3] * 0x10000 + header[4] * 0x1000000;
  if (length > incoming.length) incoming = new Bytes(length);
  readExactly(incoming, length);
  return length;
}

const readText = (start, end) => decoder.decode(incoming.subarray(start, end));
const readUint16 = (offset) => incoming[offset] + incoming[offset + 1] * 0x100;

// ---- scripts ----

// The first characters of a script that was generated from a module. They are in an added first line, which line
// numbers must not count (see validation/modules.py).
const GENERATED_MARKER = '/*made from a module*/', { startsWith } = String.prototype;
const realms = new Map();
const isTimeout = (error) => {
  try { return error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'; } catch { return false; }
};

function runWithTimeout(realm, callback, ms) {
  realm.callbackHolder.callback = callback;
  try { return evaluate(RUN_CALLBACK, realm.context, { timeout: ms }); } finally { realm.callbackHolder.callback = null; }
}

function requireString(value) {
  if (typeof value !== 'string') throw new OuterError('the harness returned no text');
  return value;
}

function newRealm() {
  const context = createContext(DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: false } });
  const helpers = evaluate(REALM, context);
  for (const addition of ADDITIONS) evaluate(addition, context)(helpers);
  const runner = evaluate(RECORDS, context)(helpers);
  runner.connect(readPart, (start, lines) => writeText(results, writeText(results, start, lines), '\n'), lookUpAndBlock);
  // runner: the functions of records.js; mustBlock: whether `flow.contains` blocks until it has the true answer, because
  // the script may keep state.
  return { context, runner, callbackHolder: evaluate(CALLBACK_HOLDER, context), mustBlock: false };
}

const errorLine = (name, message, line = 0, column = 0) => `!${stringify(name)},${stringify(message)},${line},${column}`;

// V8 reports the place of a syntax error only while no stack frames are collected.
function compileScript(source) {
  const { stackTraceLimit } = OuterError;
  OuterError.stackTraceLimit = 0;
  const lineOffset = call(startsWith, source, GENERATED_MARKER) ? -1 : 0;
  try { return { program: { compiled: compile(source, 'script.js', lineOffset), source, lineOffset } }; } catch (error) {
    const { message, frames } = destructureError(error);
    const { fileName, lineNumber, columnNumber } = frames[0] ?? {};
    const place = fileName === 'script.js' ? [lineNumber, columnNumber] : [];
    return { failure: errorLine('SyntaxError', message, ...place) };
  } finally { OuterError.stackTraceLimit = stackTraceLimit; }
}

// A script can't declare its own `Error` at the top level, because the global `Error` can't be redefined (see stacks.js).
// Such a script runs as the body of a function.
const inFunction = ({ source, lineOffset }) => compile(`(() => {
${source}
return typeof process === 'function' ? process : typeof transform === 'function' ? transform : undefined;
})()`, 'script.js', lineOffset - 1);

// Runs a script's top level. Returns the function `process` or `transform` that it defines.
function evaluateProgram(realm, program) {
  try {
    const value = evaluate(program.compiled, realm.context, { timeout: TOP_LEVEL_LIMIT_MS });
    return program.isInFunction ? value : evaluate(FIND_FUNCTION, realm.context);
  } catch (error) {
    if (program.isInFunction || isTimeout(error) || !runWithTimeout(realm, () => realm.runner.saysErrorIsDeclared(error), TOP_LEVEL_LIMIT_MS)) throw error;
    program.compiled = inFunction(program);
    program.isInFunction = true;
    return evaluateProgram(realm, program);
  }
}

// Runs a script's top level, and freezes the built-ins. Returns an error line, or '' when the script is ready.
function runTopLevel(realm, program) {
  try {
    if (VALIDATES) realm.runner.watchNondeterminism();
    const processFunction = evaluateProgram(realm, program);
    if (processFunction === undefined) return errorLine('NoProcess', 'the script defines no function process(record)');
    realm.runner.setFunction(processFunction);
    runWithTimeout(realm, realm.runner.seal, TOP_LEVEL_LIMIT_MS);
    return requireString(realm.runner.takeNondeterminism());
  } catch (error) {
    const nondeterminism = requireString(realm.runner.takeNondeterminism());
    if (nondeterminism) return nondeterminism;
    if (isTimeout(error)) return errorLine('Timeout', 'the top level of the script ran for more than 1 s');
    return requireString(runWithTimeout(realm, () => realm.runner.describe(error), TOP_LEVEL_LIMIT_MS));
  }
}

function handleLoad(length) {
  const number = readUint16(0), mustBlock = incoming[2] !== 0, { program, failure } = compileScript(readText(3, length));
  if (failure) return sendFrame(LOAD_FAILED, failure);
  const realm = newRealm(), topLevelFailure = runTopLevel(realm, program);
  if (topLevelFailure) return sendFrame(LOAD_FAILED, topLevelFailure);
  realm.mustBlock = mustBlock;
  realms.set(number, realm);
  sendFrame(LOADED, '');
}

// Strips the types of a text that does not compile as JavaScript; the rest keeps its position. Sends '' for a text that
// compiles.
function handleStrip(length) {
  const source = readText(0, length);
  if (!compileScript(source).failure) return sendFrame(STRIPPED, '');
  let stripped = '';
  try { stripped = stripTypeScriptTypes(source); } catch (error) { return sendFrame(LOAD_FAILED, errorLine('SyntaxError', requireString(error.message))); }
  sendFrame(STRIPPED, stripped);
}

// ---- segments ----

// segmentFrame: the payload of the current SEGMENT frame, its length, and the byte offsets at which the parts of the
// records begin. A segment is a part of one of the parent's batches.
let realm = null, limitMs = 0, segmentFrame = null;
// awaitingLookups: the segments that wait for answers, in the order of their lookup requests. Another segment may run
// meanwhile. freeBuffers: input buffers to use again.
const awaitingLookups = [], freeBuffers = [];

const lineEnd = (bytes, length, from) => {
  const found = from < length ? bytes.subarray(0, length).indexOf(NEWLINE, from) : -1;
  return found < 0 ? length : found;
};

// Returns whole lines of about 64 KiB: a longer string would be allocated in V8's large-object space.
function readPart(number) {
  const { bytes, length, partStarts } = segmentFrame, end = lineEnd(bytes, length, partStarts[number] + PART_BYTES);
  partStarts[number + 1] = end + 1;
  return decoder.decode(bytes.subarray(partStarts[number], end));
}

// Runs one pass of a segment: the first one, or a further one after answers. Sends the results or a lookup request.
function runPass(callback) {
  let lookupRequest;
  try { lookupRequest = requireString(runWithTimeout(realm, callback, limitMs)); } catch (error) {
    if (!isTimeout(error)) throw error;
    lookupRequest = requireString(realm.runner.truncate());
  }
  if (!lookupRequest) {
    const summary = requireString(realm.runner.finish());
    return sendResults(realm.runner.resultsEnd(), summary);
  }
  realm.runner.suspend();
  suspendSegment(lookupRequest, { keptResults: results.bytes.slice(0, realm.runner.resultsEnd()), segmentArguments: null });
}

// Sends a lookup request, and sets the current segment aside until the answers arrive. keptResults: the results so far, or
// null after a dry run; segmentArguments: the arguments of `beginSegment` after a dry run, or null.
function suspendSegment(lookupRequest, state) {
  awaitingLookups.push({ realm, limitMs, segmentFrame, ...state });
  incoming = freeBuffers.pop() ?? new Bytes(INITIAL_BUFFER_BYTES);
  sendFrame(LOOKUP_REQUEST, lookupRequest);
}

// Sends a lookup request, and blocks until the response arrives. The parent sends nothing else meanwhile, and one read
// returns the whole response, so V8 may interrupt the script at any moment. A SYNC_LOOKUP_RESPONSE that arrives after an
// interruption is read as the next frame and ignored.
const syncResponse = new Bytes(1 << 12);
function lookUpAndBlock(lookupRequest) {
  sendFrame(SYNC_LOOKUP_REQUEST, lookupRequest);
  const count = readSync(syncResponse);
  if (!count) exit(0);
  return decoder.decode(syncResponse.subarray(HEADER_BYTES, count));
}

// Returns the lookup request of a segment's records in the realm for dry runs. State that depends on assumed answers stays
// in that realm.
function dryRun(dryRunRealm, { longIntegers, columns, flags }) {
  dryRunRealm.runner.begin(longIntegers, columns, false, (flags & INPUT_FROM_SCRIPT) !== 0, (flags & FEEDS_SCRIPT) !== 0, false);
  try { return requireString(runWithTimeout(dryRunRealm, dryRunRealm.runner.dryRun, DRY_RUN_LIMIT_MS)); } catch (error) {
    if (!isTimeout(error)) throw error;
    return requireString(dryRunRealm.runner.lookupRequest());
  }
}

function beginSegment({ longIntegers, columns, flags }) {
  const isAlone = (flags & ALONE) !== 0, blocksForLookups = isAlone || realm.mustBlock;
  realm.runner.trace(flags & TRACED ? (row) => sendFrame(TRACE, '' + row) : null);
  realm.runner.begin(longIntegers, columns, isAlone, (flags & INPUT_FROM_SCRIPT) !== 0, (flags & FEEDS_SCRIPT) !== 0, blocksForLookups);
}

function handleSegment(length) {
  const flags = incoming[2], columnsEnd = lineEnd(incoming, length, 5);
  const longIntegersEnd = lineEnd(incoming, length, columnsEnd + 1);
  realm = realms.get(readUint16(0));
  limitMs = readUint16(3);
  segmentFrame = { bytes: incoming, length, partStarts: [longIntegersEnd + 1] };
  const segmentArguments = { flags, columns: readText(5, columnsEnd), longIntegers: readText(columnsEnd + 1, longIntegersEnd) };
  if (flags & DRY_RUN) {
    const lookupRequest = dryRun(realms.get(readUint16(0) + DRY_RUN_REALM_BIT), segmentArguments);
    if (lookupRequest) return suspendSegment(lookupRequest, { keptResults: null, segmentArguments: { ...segmentArguments, lookupRequest } });
  }
  beginSegment(segmentArguments);
  runPass(realm.runner.pass);
}

// Continues the segment that has waited longest for its answers.
function handleLookupResponse(length) {
  const answers = readText(0, length), suspended = awaitingLookups.shift(), { segmentArguments } = suspended;
  ({ realm, limitMs, segmentFrame } = suspended);
  freeBuffers.push(incoming);
  incoming = segmentFrame.bytes;
  if (segmentArguments !== null) {
    beginSegment(segmentArguments);
    realm.runner.preloadAnswers(segmentArguments.lookupRequest, answers);
    return runPass(realm.runner.pass);
  }
  results.bytes.set(suspended.keptResults);
  realm.runner.resume();
  runPass(() => realm.runner.applyAnswers(answers));
}

function stackOf(error) {
  try { return call(sliceText, error.stack, 0, 1000); } catch { return 'unknown'; }
}

const HANDLERS = { __proto__: null, [SEGMENT]: handleSegment, [LOOKUP_RESPONSE]: handleLookupResponse, [LOAD]: handleLoad, [SYNC_LOOKUP_RESPONSE]: () => {} };
if (VALIDATES) {
  // At its first nested statement the stripper reads a file to find the end of its stack. After HELLO no file can be
  // opened.
  stripTypeScriptTypes('if (a) b;');
  HANDLERS[STRIP] = handleStrip;
}
sendFrame(HELLO, '');
while (true) {
  const length = receiveFrame();
  try { HANDLERS[header[0]](length); } catch (error) { sendFrame(HARNESS_ERROR, stackOf(error)); }
}
