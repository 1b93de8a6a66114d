import type { OverviewItem } from "headwater-client";

import { recentRate, sum } from "../common/numbers.ts";
import type { SortColumn } from "./overview_search.ts";
import { lookOf } from "./state.ts";

const KEYS: Record<SortColumn, (item: OverviewItem) => number | string> = {
  state: (item) => lookOf(item).severity,
  name: (item) => item.name.toLowerCase(),
  in: (item) => recentRate(item.messages_received ?? []),
  out: (item) => recentRate(item.messages_sent ?? []),
  errors: (item) => sum(item.errors ?? []),
  age: (item) => item.avg_data_age_ms ?? -1,
  lag: (item) => item.lag ?? -1,
};

/** Sorts by a column. The default order shows first what is wrong. */
export function sorted(
  items: OverviewItem[],
  column: SortColumn,
  isDescending: boolean,
): OverviewItem[] {
  const direction = isDescending ? -1 : 1;
  const ties: SortColumn[] = ["state", "errors", "lag"];
  return items.toSorted((one, other) =>
    direction * compare(KEYS[column](one), KEYS[column](other)) ||
    -ties.map((tie) => compare(KEYS[tie](one), KEYS[tie](other))).reduce((found, next) =>
      found || next
    ) ||
    compare(one.name, other.name)
  );
}

function compare(one: number | string, other: number | string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
