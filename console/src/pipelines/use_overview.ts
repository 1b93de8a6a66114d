import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { OverviewItem } from "headwater-client";

import { useHeadwater } from "../app/session.tsx";
import type { OverviewSearch } from "./overview_search.ts";

const EVERY_MS = 5_000;
const PAGE_ITEMS = 200;
/** More pipelines than this are not listed; the page says so. */
export const MOST_ITEMS = 1_000;

/** The pipelines that match, refreshed every 5 s while the page is visible. */
export function useOverview({ q, tag, state }: OverviewSearch) {
  const hw = useHeadwater();
  return useQuery({
    queryKey: ["overview", q, tag, state],
    queryFn: async ({ signal }) => {
      const items: OverviewItem[] = [];
      let cursor: string | null = null;
      do {
        const page = await hw.flows.overviewPage({
          q,
          tag,
          state,
          limit: PAGE_ITEMS,
          cursor,
          signal,
        });
        items.push(...page.items);
        cursor = page.cursor;
      } while (cursor !== null && items.length < MOST_ITEMS);
      return { items, isCut: cursor !== null };
    },
    refetchInterval: EVERY_MS,
    placeholderData: keepPreviousData,
  });
}
