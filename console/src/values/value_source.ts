import type { Dataset, Filter } from "headwater-client";

/** A set of values on the page: that of a filter, or a dataset. */
export interface ValueSource {
  /** The key of the set's TanStack queries, which also names the saved position of an upload. */
  key: readonly string[];
  set: Filter | Dataset;
  /** Replaces all values at once; only filters can. */
  replace?: Filter["replace"];
  count: (signal: AbortSignal) => Promise<number>;
  page: (
    cursor: string | null,
    signal: AbortSignal,
  ) => Promise<{ values: string[]; cursor: string | null }>;
}

const PAGE_VALUES = 1_000;

export function filterSource(configId: string, filter: Filter): ValueSource {
  return {
    key: ["values", configId, filter.uid],
    set: filter,
    replace: (values, options) => filter.replace(values, options),
    count: async (signal) => (await filter.count({ signal })).count,
    page: async (cursor, signal) => {
      const page = await filter.page({
        cursor: cursor === null ? null : Number(cursor),
        count: PAGE_VALUES,
        signal,
      });
      return { values: page.values, cursor: page.cursor === null ? null : String(page.cursor) };
    },
  };
}

export function datasetSource(dataset: Dataset): ValueSource {
  return {
    key: ["values", dataset.id],
    set: dataset,
    count: async (signal) => (await dataset.page({ limit: 1, signal })).total_count,
    page: (cursor, signal) => dataset.page({ cursor, limit: PAGE_VALUES, signal }),
  };
}
