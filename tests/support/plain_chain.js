// Runs chains of scripts and filters in one realm, without Headwater. Reads {chain, records} as a line of JSON, writes a
// line with what became of each record: its outputs as JSON texts, or the name of the error.
//
// What goes from one step to the next is what JSON leaves of it; a BigInt stays a BigInt, a Number a Number.
const MAX_SAFE = Number.MAX_SAFE_INTEGER;
const isBig = (value) => typeof value === 'number' && Math.abs(value) > MAX_SAFE;
const read = (text) => JSON.parse(text, (key, value, { source }) => isBig(value) && /^-?\d+$/.test(source) ? BigInt(source) : value);
const tag = (key, value) => typeof value === 'bigint' ? { bigint: String(value) } : value;
const untag = (key, value) => value !== null && typeof value === 'object' && typeof value.bigint === 'string' ? BigInt(value.bigint) : value;
const between = (value) => JSON.parse(JSON.stringify(value, tag), untag);
const write = (record) => JSON.stringify(record, (key, value) => typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value);

const scripts = new Map();
const functionOf = (script) => {
  if (!scripts.has(script)) scripts.set(script, new Function(script + ';\nreturn process')());
  return scripts.get(script);
};

const textsOf = (value) => {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  return typeof value === 'object' ? [] : [String(value).toLowerCase()];
};

function step({ script, member, values }, record) {
  if (script === undefined) return textsOf(record[member]).some((text) => values.includes(text)) ? [record] : [];
  const result = functionOf(script)(record);
  return [result].flat().filter((one) => one !== null && one !== undefined).map(between);
}

// An error takes one record out; the other outputs of its source record go on.
function run(chain, record) {
  if (chain.length === 0) return [write(record)];
  let made;
  try { made = step(chain[0], record); } catch (error) { return [error.name]; }
  return made.flatMap((one) => run(chain.slice(1), one));
}

const { stdin, stdout } = Deno, encoder = new TextEncoder();
let rest = '';
for await (const text of stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split('\n');
  rest = lines.pop();
  for (const line of lines) {
    const { chain, records } = JSON.parse(line);
    const answer = encoder.encode(JSON.stringify(records.map((record) => run(chain, read(record)))) + '\n');
    for (let sent = 0; sent < answer.length;) sent += stdout.writeSync(answer.subarray(sent));
  }
}
