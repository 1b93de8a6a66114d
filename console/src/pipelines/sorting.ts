import type { OverviewItem } from "headwater-client";

import { recentRate, sum } from "../common/numbers.ts";
import type { SortColumn } from "./overview_search.ts";
import { lookOf } from "./state.ts";

const KEYS: Record<SortColumn, (item: OverviewItem) => number | string> = {
  state: (item) => lookOf(item).severity,
  name: (item) => item.name.toLowerCase(),
  source: ({ source }) => source ? `${source.chain} ${source.entity}` : "",
  in: (item) => recentRate(item.messages_received ?? []),
  out: (item) => recentRate(item.messages_sent ?? []),
  errors: (item) => sum(item.errors ?? []),
  age: (item) => item.avg_data_age_ms ?? -1,
  lag: (item) => item.lag ?? -1,
  revision: (item) => item.updated_at,
};

const TIES: SortColumn[] = ["state", "errors", "lag"];

/** Sorts by a column. The default order shows first what is wrong. */
export function sorted(
  items: OverviewItem[],
  column: SortColumn,
  isDescending: boolean,
): OverviewItem[] {
  const direction = isDescending ? -1 : 1;
  const ranked = items.map((item) => ({
    item,
    key: KEYS[column](item),
    ties: TIES.map((tie) => KEYS[tie](item)),
  }));
  ranked.sort((one, other) =>
    direction * compare(one.key, other.key) ||
    -TIES.reduce((found, _, tie) => found || compare(one.ties[tie]!, other.ties[tie]!), 0) ||
    compare(one.item.name, other.item.name)
  );
  return ranked.map(({ item }) => item);
}

function compare(one: number | string, other: number | string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
