/** What a tail keeps. */

import assert from "node:assert/strict";

import type { TailRecord } from "headwater-client";

import { MAX_RECORDS, TailBuffer } from "../src/records/tail_buffer.ts";

function records(...offsets: number[]): TailRecord[] {
  return offsets.map((offset) => ({ of: "base/log", partition: 0, offset }) as TailRecord);
}

Deno.test("a tail keeps the newest records, with numbers of their own", () => {
  const buffer = new TailBuffer();
  buffer.onConnected();
  buffer.add(records(...Array(MAX_RECORDS).keys()));
  buffer.add(records(MAX_RECORDS, MAX_RECORDS + 1));
  while (buffer.advance());
  assert.equal(buffer.rows.length, MAX_RECORDS);
  assert.deepEqual([buffer.rows[0]!.sequence, buffer.rows.at(-1)!.sequence], [2, MAX_RECORDS + 1]);
  assert.equal(buffer.missed, 0);
});

Deno.test("a tail shows a batch over some frames, in order", () => {
  const buffer = new TailBuffer();
  buffer.add(records(...Array(20).keys()));
  const shown = [];
  do {
    const before = buffer.rows.length;
    buffer.advance();
    shown.push(buffer.rows.length - before);
  } while (buffer.rows.length < 20);
  assert.deepEqual(shown, [4, 4, 4, 4, 4]);
  assert.equal(buffer.advance(), false);
  assert.deepEqual(buffer.rows.map(({ sequence }) => sequence), [...Array(20).keys()]);
});

Deno.test("a tail counts what was appended while it had no connection", () => {
  const buffer = new TailBuffer();
  buffer.onConnected();
  buffer.add(records(5, 9));
  assert.equal(buffer.missed, 0, "the server counts what it leaves out of a connection");
  buffer.onConnected();
  buffer.add(records(20, 30));
  assert.equal(buffer.missed, 10);
});
