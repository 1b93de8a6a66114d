/** Numbers as people read them, the order of the list, and changes of a document. */

import assert from "node:assert/strict";

import type { OverviewItem } from "headwater-client";

import { duration, middle, percent, recentRate, short, usd } from "../src/common/numbers.ts";
import { changed } from "../src/editor/changes.ts";
import type { EditedDocument } from "../src/editor/document.ts";
import { sorted } from "../src/pipelines/sorting.ts";

Deno.test("numbers are short", () => {
  const values = [0, 0.066, 4.2, 12_431, 1_250_000, 999];
  assert.deepEqual(values.map((value) => short(value)), [
    "0",
    "0.07",
    "4.20",
    "12.4 k",
    "1.3 M",
    "999",
  ]);
  assert.deepEqual([350, 3_000, 95_000, 7_200_000].map(duration), [
    "350 ms",
    "3 s",
    "2 min",
    "2 h",
  ]);
});

Deno.test("prices have six digits", () => {
  const values = [2005.1234, 0.00001234, 1.5e-12, 8_388_608, 0];
  assert.deepEqual(values.map(usd), ["2,005.12", "0.00001234", "1.500e-12", "8,388,608", "0"]);
  assert.deepEqual([1.254, -3, 0, 12_000].map(percent), [
    "+1.25 %",
    "-3.00 %",
    "0.00 %",
    "+12.0 k %",
  ]);
  assert.equal(middle("0x4200000000000000000000000000000000000006"), "0x420000…000006");
});

Deno.test("a rate is of the last whole minutes", () => {
  assert.equal(recentRate([0, 0, 60, 60, 60, 60, 60, 7]), 1);
});

Deno.test("what is wrong is first", () => {
  const item = (name: string, members: Partial<OverviewItem>) =>
    ({ name, state: "deployed", ...members }) as OverviewItem;
  const items = [
    item("draft", { state: "draft" }),
    item("runs", {}),
    item("lags", { lag: 9 }),
    item("fails", { state: "failing" }),
  ];
  assert.deepEqual(sorted(items, "state", true).map(({ name }) => name), [
    "fails",
    "lags",
    "runs",
    "draft",
  ]);
});

Deno.test("transforms move within their list", () => {
  const transform = { type: "v8", script: "" } as const;
  const transforms = ["a", "b"].map((key) => ({ key, transform, isOff: false }));
  const document = { transforms } as EditedDocument;
  const keys = (by: 1 | -1) =>
    changed(document, { kind: "move", key: "b", by }).transforms.map(({ key }) => key);
  assert.deepEqual([keys(-1), keys(1)], [["b", "a"], ["a", "b"]]);
});
