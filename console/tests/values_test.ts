/** Values out of pasted text and files. */

import assert from "node:assert/strict";

import { Gate } from "../src/values/gate.ts";
import { parsePasted, shapeOf, valuesOf } from "../src/values/parse.ts";
import { bodyOf } from "../src/values/request_file.ts";

Deno.test("pasted values are trimmed, in lower case, and each once", () => {
  const { values, doubles, bad } = parsePasted(` 0xA, 0xb\n0xa;0xc\t${"x".repeat(1_025)}`);
  assert.deepEqual([values, doubles, bad.length], [["0xa", "0xb", "0xc"], 1, 1]);
});

const FILES: [string, string, string[], string, string[]][] = [
  ["text", "0xA\n0xb\n\n", ["value"], "value", ["0xa", "0xb"]],
  ["csv", 'name,address\r\n"Ann, B.",0xA\nBob,0xb', ["name", "address"], "address", ["0xa", "0xb"]],
  ["csv", "0xA,1\n0xb,2\n", ["column 1", "column 2"], "column 1", ["0xa", "0xb"]],
  ["json lines", '{"a": "0xA", "n": 1}\n{"a": "0xb"}\n{"n": 2}\n', ["a", "n"], "a", ["0xa", "0xb"]],
];
for (const [kind, text, columns, column, expected] of FILES) {
  Deno.test(`a column of ${kind}: ${JSON.stringify(text)}`, async () => {
    const file = new File([text], "values");
    const shape = await shapeOf(file);
    assert.deepEqual([shape.kind, shape.columns], [kind, columns]);
    let bytes = 0;
    const values = await Array.fromAsync(valuesOf(file, shape, column, (read) => bytes = read));
    assert.deepEqual([values, bytes], [expected, file.size]);
  });
}

async function* list(...values: string[]): AsyncGenerator<string, void> {
  yield* values;
}

Deno.test("the body of a request has the values in blocks", async () => {
  const parts = await Array.fromAsync(bodyOf(list('a"b', "c")));
  assert.deepEqual(JSON.parse(parts.join("")), { values: ['a"b', "c"] });
  assert.equal((await Array.fromAsync(bodyOf(list()))).join(""), '{"values":[]}');
  const many = Array.from({ length: 40_000 }, (_, number) => String(number));
  const blocks = await Array.fromAsync(bodyOf(list(...many)));
  assert.equal(blocks.length, 3);
  assert.deepEqual(JSON.parse(blocks.join("")).values, many);
});

Deno.test("a closed gate lets no value through until it opens or the upload is stopped", async () => {
  const gate = new Gate();
  const stop = new AbortController();
  const passing = gate.pass(list("a", "b", "c"), stop.signal);
  assert.equal((await passing.next()).value, "a");
  gate.close();
  const next = passing.next();
  gate.open();
  assert.equal((await next).value, "b");
  gate.close();
  const last = passing.next();
  stop.abort(new Error("stopped"));
  gate.open();
  await assert.rejects(last, /stopped/);
});
