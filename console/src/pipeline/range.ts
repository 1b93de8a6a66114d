import type { TimeRange } from "headwater-client";

/** The time range of the plots, as it is in the address of the page. */
export interface RangeSearch {
  range?: TimeRange;
}

export const RANGES: { value: TimeRange; label: string; seconds: number; step: number }[] = [
  { value: "1h", label: "1 hour", seconds: 3_600, step: 60 },
  { value: "1d", label: "1 day", seconds: 86_400, step: 300 },
  { value: "1w", label: "1 week", seconds: 604_800, step: 3_600 },
];

export function readRange(search: Record<string, unknown>): RangeSearch {
  const found = RANGES.find(({ value }) => value === search["range"]);
  return found ? { range: found.value } : {};
}
