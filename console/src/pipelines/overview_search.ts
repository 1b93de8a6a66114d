/** What the list shows, as it is in the address of the page. */
export interface OverviewSearch {
  q?: string;
  tag?: string;
  state?: State;
  sort?: SortColumn;
  desc?: boolean;
}

export const STATES = ["deployed", "failing", "paused", "draft", "unreadable"] as const;
export const SORT_COLUMNS = [
  "state",
  "name",
  "source",
  "in",
  "out",
  "errors",
  "age",
  "lag",
  "revision",
] as const;
export type State = typeof STATES[number];
export type SortColumn = typeof SORT_COLUMNS[number];

/** Whether a column has texts, which are sorted from A to Z first. */
export function isText(column: SortColumn): boolean {
  return column === "name" || column === "source";
}

export function readOverviewSearch(search: Record<string, unknown>): OverviewSearch {
  return {
    ...text(search, "q"),
    ...text(search, "tag"),
    ...oneOf(search, "state", STATES),
    ...oneOf(search, "sort", SORT_COLUMNS),
    ...(typeof search["desc"] === "boolean" ? { desc: search["desc"] } : {}),
  };
}

function text(search: Record<string, unknown>, name: "q" | "tag"): OverviewSearch {
  const value = search[name];
  return value === undefined || value === "" ? {} : { [name]: String(value) };
}

function oneOf<T extends string>(
  search: Record<string, unknown>,
  name: string,
  values: readonly T[],
) {
  const value = values.find((each) => each === search[name]);
  return value === undefined ? {} : { [name]: value };
}
