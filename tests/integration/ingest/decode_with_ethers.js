// Decodes logs with ethers: a line {"fragment", "topics", "data"} in, a line {"strict", "loose"} out.
//
// strict: as the event is written, with the bound that ethers sets. loose: addresses and booleans as numbers of their
// size and texts as bytes, which ethers reads whatever they hold, with the bound of Headwater.
// Each is {"values"} in the ABI's order, with tuples as lists, or {"error"}: ethers' code and message.
const { AbiCoder, Indexed, Interface, toBeHex } = require("ethers");
const { createInterface } = require("node:readline");

const INFLATION = { strict: 1024, loose: 32 };
const SUBSTITUTES = { address: "uint160", bool: "uint8", string: "bytes" };
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

const RENDER = {
  address: (value) => (typeof value === "string" ? value.toLowerCase() : toBeHex(value, 20)),
  bool: (value) => String(value === true || value > 0),
  string: (value, isLoose) => (isLoose ? utf8.decode(Buffer.from(value.slice(2), "hex")) : value),
};

function loosened(input) {
  const base = input.type.replace(/(\[\d*\])*$/, "");
  const type = (SUBSTITUTES[base] ?? base) + input.type.slice(base.length);
  return { ...input, type, components: input.components?.map(loosened) };
}

function rendered(value, input, isLoose) {
  if (value instanceof Indexed) return value.hash;
  const array = input.type.match(/^(.*)\[\d*\]$/);
  if (array) return [...value.keys()].map((i) => rendered(value[i], { ...input, type: array[1] }, isLoose));
  if (input.type === "tuple") return input.components.map((each, i) => rendered(value[i], each, isLoose));
  return RENDER[input.type]?.(value, isLoose) ?? String(value);
}

const readers = new Map();

function readerOf(fragment, isLoose) {
  const key = JSON.stringify([fragment, isLoose]);
  const inputs = isLoose ? fragment.inputs.map(loosened) : fragment.inputs;
  if (!readers.has(key)) readers.set(key, new Interface([{ ...fragment, inputs }]));
  return readers.get(key);
}

function decoded({ fragment, topics, data }, isLoose) {
  AbiCoder._setDefaultMaxInflation(isLoose ? INFLATION.loose : INFLATION.strict);
  try {
    const reader = readerOf(fragment, isLoose);
    const event = reader.getEvent(fragment.name);
    if (event === null) return { error: "UNSUPPORTED_TYPE" };
    const result = reader.decodeEventLog(event, data, [event.topicHash, ...topics.slice(1)]);
    return { values: fragment.inputs.map((input, i) => rendered(result[i], input, isLoose)) };
  } catch (error) {
    let cause = error; // deferred ones are wrapped, once for each tuple or array around them
    while (cause.error) cause = cause.error;
    return { error: `${cause.code}: ${cause.shortMessage ?? cause.message}` };
  }
}

console.log = () => {}; // ethers tells of fragments that it leaves out
createInterface({ input: process.stdin }).on("line", (line) => {
  const log = JSON.parse(line);
  process.stdout.write(`${JSON.stringify({ strict: decoded(log, false), loose: decoded(log, true) })}\n`);
});
