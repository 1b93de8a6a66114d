/** What a plot of prices shows, and why trades count. */

import assert from "node:assert/strict";

import type { PriceExplanation } from "headwater-client";

import { priceData, priceRange } from "../src/prices/price_data.ts";
import { tradesOf } from "../src/prices/trades.ts";

const NOW = Date.parse("2026-01-02T03:00:00Z");
const at = (minute: number, price: number) => ({
  timestamp: new Date(NOW - minute * 60_000).toISOString(),
  price,
});
const other = (status: "held" | "rejected", minute: number, price: number) => ({
  ...at(minute, price),
  status,
  reason: "far",
});

Deno.test("counted, held and rejected prices are three lines over the last 25 hours", () => {
  const unaccepted = [other("held", 1, 300), other("rejected", 5, 9e6)];
  const [times, ...prices] = priceData([at(30, 100), at(26 * 60, 50)], {
    accepted: [at(30, 100), at(2, 101)],
    unaccepted,
  }, NOW);
  assert.equal(times.at(-1)! - times[0]!, 25 * 3600);
  assert.deepEqual(prices, [
    [null, 100, null, 101, null, null],
    [null, null, null, null, 300, null],
    [null, null, 9e6, null, null, null],
  ]);
  const [low, high] = priceRange([times, ...prices], false);
  assert.ok(low < 100 && high > 101 && high < 102);
  assert.deepEqual(priceRange([times, ...prices], true), [100, 1e8]);
});

Deno.test("each trade says why it counts, the newest first", () => {
  const band = { active_minutes: 42, last: at(2, 101), accepted: true };
  const explanation = {
    accepted: [at(2, 101), at(9, 130)],
    unaccepted: [other("held", 1, 300)],
    bands: [
      { ...band, min_price: 64, max_price: 128, established: true },
      { ...band, min_price: 128, max_price: 256, established: false },
    ],
  } as PriceExplanation;
  assert.deepEqual(tradesOf(explanation).map(({ kind, why }) => [kind, why]), [
    ["held", "far"],
    ["counted", "Prices from 64 to 128 have trades in 42 minutes."],
    ["counted", "Prices from 128 to 256 are next to prices with enough trades."],
  ]);
});
