// Outer harness: the engine's main module. Reads frames, keeps one realm per script, writes frames.
//
// It never returns to the event loop, so no promise job, timer, import or operation that a script starts ever runs.
// Only strings cross into a script's realm. `SOURCES` has the text of realm.js and records.js. `stripTypeScriptTypes` is null
// but where scripts are checked before they are saved.
import vm from 'node:vm';

const HELLO = 0, BATCH = 1, KEYS = 2, RESULTS = 3, ANSWERS = 4, LOAD = 5, LOADED = 6, TRACE = 7, REFUSED = 8, BROKEN = 9;
const TRACED = 1, EAGER = 2;
const TOP_LEVEL_MS = 1000;
const NEWLINE = 10, PART_BYTES = 1 << 16;

const { stdin, stdout, exit } = Deno;
const { destructureError } = Deno[Deno.internal].core;
const readSync = stdin.readSync.bind(stdin), writeSync = stdout.writeSync.bind(stdout);
const decoder = new TextDecoder('utf-8', { ignoreBOM: true }), encoder = new TextEncoder();
const Bytes = Uint8Array, OuterError = Error, stringify = JSON.stringify, sliceText = String.prototype.slice;
const call = Function.prototype.call.bind(Function.prototype.call);
const { createContext, Script } = vm, fresh = vm.constants.DONT_CONTEXTIFY, runInContext = Script.prototype.runInContext;
const secret = [...crypto.getRandomValues(new Bytes(16))].map((byte) => byte.toString(16)).join('');
const compile = (text, filename = 'harness.js', lineOffset = 0) => new Script(text, { filename, lineOffset });
const evaluate = (compiled, context, options) => call(runInContext, compiled, context, options);

const REALM = compile(SOURCES.realm), RECORDS = compile(SOURCES.records);
// The entry point is a lexical binding of the script's realm with a name that can be neither listed nor guessed.
const ENTRY = compile(`const h${secret} = { __proto__: null, job: null }; h${secret}`);
const CALL_ENTRY = compile(`h${secret}.job()`);
const FIND_SCRIPT = compile('typeof process === "function" ? process : typeof transform === "function" ? transform : undefined');

const CHECKING = stripTypeScriptTypes !== null;

// Nothing useful is left in this realm, even if a script got hold of one of its objects.
for (const sample of [function () {}, async function () {}, function* () {}, async function* () {}]) {
  Object.defineProperty(Object.getPrototypeOf(sample), 'constructor', { value: null });
}
const KEPT = new Set(['Object', 'Array', 'Error', 'TypeError', 'RangeError', 'String', 'Symbol', 'Number', 'Promise', 'Map', 'Set',
  'globalThis', 'Infinity', 'NaN', 'undefined', 'Reflect', 'Uint8Array', 'ArrayBuffer', 'JSON', 'Math', 'Proxy', 'WeakMap',
  'WeakSet', 'Date', 'RegExp', 'Function', 'BigInt', 'Boolean', 'DataView']);
for (const key of Reflect.ownKeys(globalThis)) {
  // Leaving the process asks for the realm's brands, which are symbols.
  if (typeof key === 'string' && !KEPT.has(key)) try { delete globalThis[key]; } catch { /* the engine pins a few harmless constants */ }
}

// ---- frames ----

const HEADER = 5;
const header = new Bytes(HEADER);
const FIRST_BYTES = 1 << 20;
let incoming = new Bytes(FIRST_BYTES);
const outgoing = { bytes: new Bytes(1 << 16) }, results = { bytes: new Bytes(FIRST_BYTES) };

function fill(buffer, length) {
  let filled = 0;
  while (filled < length) {
    const count = readSync(buffer.subarray(filled, length));
    if (!count) exit(0);
    filled += count;
  }
}

// Puts a text into a buffer that grows. Returns where it ends.
function put(buffer, at, text) {
  if (at + text.length * 3 > buffer.bytes.length) {
    const smaller = buffer.bytes;
    buffer.bytes = new Bytes(2 * at + text.length * 3);
    buffer.bytes.set(smaller.subarray(0, at));
  }
  return at + encoder.encodeInto(text, buffer.bytes.subarray(at)).written;
}

function sendFrame(kind, { bytes }, end) {
  bytes[0] = kind;
  for (let i = 0; i < 4; i++) bytes[i + 1] = (end - HEADER) >>> (8 * i);
  let sent = 0;
  while (sent < end) sent += writeSync(bytes.subarray(sent, end));
}

function send(kind, text) {
  sendFrame(kind, outgoing, put(outgoing, HEADER, text));
}

function receive() {
  fill(header, HEADER);
  const length = header[1] + header[2] * 0x100 + header[3] * 0x10000 + header[4] * 0x1000000;
  if (length > incoming.length) incoming = new Bytes(length);
  fill(incoming, length);
  return length;
}

const text = (start, end) => decoder.decode(incoming.subarray(start, end));
const word = (at) => incoming[at] + incoming[at + 1] * 0x100;

// ---- scripts ----

const STRIP = 20, STRIPPED = 21, MADE = '/*made from a module*/', { startsWith } = String.prototype;
const realms = new Map();
const isTimeout = (error) => {
  try { return error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'; } catch { return false; }
};

function timed(realm, job, ms) {
  realm.entry.job = job;
  try { return evaluate(CALL_ENTRY, realm.context, { timeout: ms }); } finally { realm.entry.job = null; }
}

function asText(value) {
  if (typeof value !== 'string') throw new OuterError('the harness returned no text');
  return value;
}

function newRealm() {
  const context = createContext(fresh, { codeGeneration: { strings: false, wasm: false } });
  const core = evaluate(RECORDS, context)(evaluate(REALM, context));
  core.connect(readPart, (at, text) => put(results, put(results, at, text), '\n'));
  return { context, core, entry: evaluate(ENTRY, context) };
}

const errorLine = (name, message, line = 0, column = 0) => `!${stringify(name)},${stringify(message)},${line},${column}`;

// A syntax error's place is told only for an error without stack frames. A script that was made
// from a module begins with a line that the sent text does not have.
function compileScript(source) {
  const { stackTraceLimit } = OuterError;
  OuterError.stackTraceLimit = 0;
  const isMade = call(startsWith, source, MADE);
  try { return { compiled: compile(source, 'script.js', isMade ? -1 : 0) }; } catch (error) {
    const { message, frames } = destructureError(error);
    const { fileName, lineNumber, columnNumber } = frames[0] ?? {};
    const place = fileName === 'script.js' ? [lineNumber, columnNumber] : [];
    return { refusal: errorLine('SyntaxError', message, ...place) };
  } finally { OuterError.stackTraceLimit = stackTraceLimit; }
}

function runTopLevel(realm, compiled) {
  try {
    if (CHECKING) realm.core.watchTopLevel();
    evaluate(compiled, realm.context, { timeout: TOP_LEVEL_MS });
    const script = evaluate(FIND_SCRIPT, realm.context);
    if (script === undefined) return errorLine('NoProcess', 'the script defines no function process(record)');
    realm.core.setScript(script);
    timed(realm, realm.core.seal, TOP_LEVEL_MS);
    return asText(realm.core.outsideUse());
  } catch (error) {
    const outside = asText(realm.core.outsideUse());
    if (outside) return outside;
    if (isTimeout(error)) return errorLine('Timeout', 'the top level of the script ran for more than 1 s');
    return asText(timed(realm, () => realm.core.describe(error), TOP_LEVEL_MS));
  }
}

function load(length) {
  const number = word(0), { compiled, refusal } = compileScript(text(2, length));
  if (refusal) return send(REFUSED, refusal);
  const realm = newRealm(), fault = runTopLevel(realm, compiled);
  if (fault) return send(REFUSED, fault);
  realms.set(number, realm);
  send(LOADED, '');
}

// Takes the types from a text that is no script; the places of all that is left stay. Sends '' for a script.
function strip(length) {
  const source = text(0, length);
  if (!compileScript(source).refusal) return send(STRIPPED, '');
  let stripped = '';
  try { stripped = stripTypeScriptTypes(source); } catch (error) { return send(REFUSED, errorLine('SyntaxError', asText(error.message))); }
  send(STRIPPED, stripped);
}

// ---- batches ----

// body: its frame, and where the parts of its records begin in it.
let realm = null, limitMs = 0, body = null;
// Batches that wait for answers, in the order of their questions. Another batch may run meanwhile.
const asking = [], spare = [];

const lineEnd = (bytes, length, from) => {
  const found = from < length ? bytes.subarray(0, length).indexOf(NEWLINE, from) : -1;
  return found < 0 ? length : found;
};

// Whole lines, so few that the engine does not treat their text as a large object.
function readPart(number) {
  const { bytes, length, starts } = body, end = lineEnd(bytes, length, starts[number] + PART_BYTES);
  starts[number + 1] = end + 1;
  return decoder.decode(bytes.subarray(starts[number], end));
}

// One step of a batch: its first pass, or a further one after answers.
function step(job) {
  let question;
  try { question = asText(timed(realm, job, limitMs)); } catch (error) {
    if (!isTimeout(error)) throw error;
    question = asText(realm.core.cut());
  }
  if (!question) {
    const rest = asText(realm.core.finish());
    return sendFrame(RESULTS, results, put(results, realm.core.written(), rest));
  }
  realm.core.suspend();
  asking.push({ realm, limitMs, body, kept: results.bytes.slice(0, realm.core.written()) });
  incoming = spare.pop() ?? new Bytes(FIRST_BYTES);
  send(KEYS, question);
}

function batch(length) {
  const flags = incoming[2], columnsEnd = lineEnd(incoming, length, 5), headEnd = lineEnd(incoming, length, columnsEnd + 1);
  realm = realms.get(word(0));
  limitMs = word(3);
  body = { bytes: incoming, length, starts: [headEnd + 1] };
  const columns = text(5, columnsEnd), head = text(columnsEnd + 1, headEnd);
  realm.core.trace(flags & TRACED ? (row) => send(TRACE, '' + row) : null);
  realm.core.begin(head, columns, (flags & EAGER) !== 0);
  step(realm.core.pass);
}

// The answers are those to the oldest question.
function answers(length) {
  const answer = text(0, length);
  const { kept, ...asked } = asking.shift();
  ({ realm, limitMs, body } = asked);
  spare.push(incoming);
  incoming = body.bytes;
  results.bytes.set(kept);
  realm.core.resume();
  step(() => realm.core.feed(answer));
}

function reason(error) {
  try { return call(sliceText, error.stack, 0, 1000); } catch { return 'unknown'; }
}

const ACTIONS = { __proto__: null, [BATCH]: batch, [ANSWERS]: answers, [LOAD]: load };
if (CHECKING) {
  stripTypeScriptTypes('if (a) b;'); // at its first statement of depth it finds out where the stack ends: before the hello
  ACTIONS[STRIP] = strip;
}
send(HELLO, '');
while (true) {
  const length = receive();
  try { ACTIONS[header[0]](length); } catch (error) { send(BROKEN, reason(error)); }
}
