/** Values out of pasted text and files. */

import assert from "node:assert/strict";

import { Gate } from "../src/values/gate.ts";
import { parsePasted, shapeOf, valuesOf } from "../src/values/parse.ts";
import { bodyOf } from "../src/values/request_file.ts";

Deno.test("pasted values are trimmed, in lower case, and each once", () => {
  const { values, duplicates, tooLong } = parsePasted(` 0xA, 0xb\n0xa;0xc\t${"x".repeat(1_025)}`);
  assert.deepEqual([values, duplicates, tooLong.length], [["0xa", "0xb", "0xc"], 1, 1]);
});

const FILES: [string, string, string[], string, string[]][] = [
  ["text", "0xA\n0xb\n\n", ["value"], "value", ["0xa", "0xb"]],
  ["csv", 'name,address\r\n"Ann, B.",0xA\nBob,0xb', ["name", "address"], "address", ["0xa", "0xb"]],
  ["csv", "name;address\nAnn, B.;0xA\n", ["name", "address"], "address", ["0xa"]],
  ["csv", "0xA,1\n0xb,2\n", ["column 1", "column 2"], "column 1", ["0xa", "0xb"]],
  ["json lines", '{"a": "0xA", "n": 1}\n{"a": "0xb"}\n{"n": 2}\n', ["a", "n"], "a", ["0xa", "0xb"]],
];
for (const [kind, text, columns, column, expected] of FILES) {
  Deno.test(`a column of ${kind}: ${JSON.stringify(text)}`, async () => {
    const file = new File([text], "values");
    const shape = await shapeOf(file);
    assert.deepEqual([shape.kind, shape.columns], [kind, columns]);
    const reading = { bytes: 0, onTooLong: () => assert.fail("no value is too long") };
    const values = await Array.fromAsync(valuesOf(file, shape, column, reading));
    assert.deepEqual([values, reading.bytes], [expected, file.size]);
  });
}

Deno.test("a CSV file of one column has a header", async () => {
  const shape = await shapeOf(new File(["address\n0xA\n"], "wallets.csv"));
  assert.deepEqual([shape.columns, shape.rows], [["address"], [["0xA"]]]);
});

Deno.test("values that are too long are left out and counted", async () => {
  const file = new File(["0xa\n" + "x".repeat(1_025) + "\n0xb\n"], "values");
  let tooLong = 0;
  const reading = { bytes: 0, onTooLong: () => tooLong += 1 };
  const values = await Array.fromAsync(valuesOf(file, await shapeOf(file), "value", reading));
  assert.deepEqual([values, tooLong], [["0xa", "0xb"], 1]);
});

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
