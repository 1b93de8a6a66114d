import type { PriceExplanation, PriceHistory } from "headwater-client";

import type { Line } from "../common/plot/Plot.tsx";

type Point = PriceHistory["points"][number];

export const PRICE_LINES: Line[] = [
  { label: "counted", color: "water", look: "dotted" },
  { label: "held", color: "yellow", look: "dots" },
  { label: "rejected", color: "red", look: "dots" },
];

const SHOWN_S = 25 * 3600;
const ROUNDED_TO_S = 300;
const MARGIN = 0.05;
const LOG_MARGIN = 1.5;

/** Returns the times of the last 25 hours with a trade, in seconds, and the prices at each of them. */
export function priceData(
  history: Point[],
  { accepted, unaccepted }: Pick<PriceExplanation, "accepted" | "unaccepted">,
  nowMs: number,
): [number[], ...(number | null)[][]] {
  const end = Math.ceil(nowMs / 1000 / ROUNDED_TO_S) * ROUNDED_TO_S;
  const start = end - SHOWN_S;
  const groups = [
    [...history, ...accepted],
    unaccepted.filter(({ status }) => status === "held"),
    unaccepted.filter(({ status }) => status === "rejected"),
  ].map((points) =>
    new Map(
      points.map(({ timestamp, price }) => [Date.parse(timestamp) / 1000, price] as const)
        .filter(([time]) => time > start && time < end),
    )
  );
  const times = [...new Set([start, end, ...groups.flatMap((prices) => [...prices.keys()])])];
  times.sort((one, other) => one - other);
  return [times, ...groups.map((prices) => times.map((time) => prices.get(time) ?? null))];
}

/** Returns the range of the plot: around the prices that count, or around all prices. */
export function priceRange(
  [, counted = [], ...others]: (number | null)[][],
  isAll: boolean,
): [number, number] {
  const known = (prices: (number | null)[]) => prices.filter((price) => price !== null);
  const prices = known(counted);
  if (isAll || prices.length === 0) prices.push(...known(others.flat()));
  if (prices.length === 0) return isAll ? [0.1, 1] : [0, 1];
  const [low, high] = [Math.min(...prices), Math.max(...prices)];
  if (isAll) return [powerOfTen(low, Math.floor), powerOfTen(high * LOG_MARGIN, Math.ceil)];
  const margin = (high - low) * MARGIN || high * MARGIN;
  return [Math.max(0, low - margin), high + margin];
}

/** Labels of a logarithmic scale are round when it begins with a power of ten. */
function powerOfTen(price: number, round: (exponent: number) => number): number {
  return 10 ** round(Math.log10(price));
}
