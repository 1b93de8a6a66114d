/** What a tail keeps. */

import assert from "node:assert/strict";

import type { TailRecord } from "headwater-client";

import { MOST_RECORDS, TailBuffer } from "../src/records/tail_buffer.ts";

function records(...offsets: number[]): TailRecord[] {
  return offsets.map((offset) => ({ of: "base/log", partition: 0, offset }) as TailRecord);
}

Deno.test("a tail keeps the newest records, with numbers of their own", () => {
  const buffer = new TailBuffer();
  buffer.resume();
  buffer.add(records(...Array(MOST_RECORDS).keys()));
  buffer.add(records(MOST_RECORDS, MOST_RECORDS + 1));
  assert.equal(buffer.rows.length, MOST_RECORDS);
  assert.deepEqual([buffer.rows[0]!.row, buffer.rows.at(-1)!.row], [2, MOST_RECORDS + 1]);
  assert.equal(buffer.missed, 0);
});

Deno.test("a tail counts what was appended while it had no connection", () => {
  const buffer = new TailBuffer();
  buffer.resume();
  buffer.add(records(5, 9));
  assert.equal(buffer.missed, 0, "the server counts what it leaves out of a connection");
  buffer.resume();
  buffer.add(records(20, 30));
  assert.equal(buffer.missed, 10);
});
