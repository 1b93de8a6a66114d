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
/** Held prices that are further away than this factor do not widen the plot. */
const MOST_FACTOR = 8;
const MARGIN = 0.05;

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

/** Returns the lowest and the highest price that the plot shows: all counted ones, and near ones that are held. */
export function priceRange([, counted = [], held = []]: (number | null)[][]): [number, number] {
  const prices = counted.filter((price) => price !== null);
  if (prices.length === 0) prices.push(...held.filter((price) => price !== null));
  if (prices.length === 0) return [0, 1];
  let [low, high] = [Math.min(...prices), Math.max(...prices)];
  const near = held.filter((price) => price !== null).filter((price) =>
    price > low / MOST_FACTOR && price < high * MOST_FACTOR
  );
  [low, high] = [Math.min(low, ...near), Math.max(high, ...near)];
  const margin = (high - low) * MARGIN || high * MARGIN;
  return [Math.max(0, low - margin), high + margin];
}
