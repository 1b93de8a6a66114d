import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { useHeadwater } from "../app/session.tsx";
import type { PricesSearch } from "./search.ts";

const EVERY_MS = 5_000;
const HISTORY_EVERY_MS = 60_000;
const PAGE_TOKENS = 25;

/** A page of the tokens that match, refreshed every 5 s while it is visible. */
export function useTokens({ q, cursor }: PricesSearch) {
  const hw = useHeadwater();
  return useQuery({
    queryKey: ["prices", "tokens", q, cursor],
    queryFn: ({ signal }) => hw.prices.tokensPage({ q, cursor, limit: PAGE_TOKENS, signal }),
    refetchInterval: EVERY_MS,
    placeholderData: keepPreviousData,
  });
}

/** The prices of a token over the last 25 hours. */
export function useHistory(chain: string, address: string) {
  const hw = useHeadwater();
  return useQuery({
    queryKey: ["prices", "history", chain, address],
    queryFn: async ({ signal }) => (await hw.prices.history(address, chain, { signal })).points,
    staleTime: HISTORY_EVERY_MS,
    refetchInterval: HISTORY_EVERY_MS,
  });
}

/** How the price of a token comes about. */
export function useExplanation(chain: string, address: string) {
  const hw = useHeadwater();
  return useQuery({
    queryKey: ["prices", "explanation", chain, address],
    queryFn: ({ signal }) => hw.prices.explain(address, chain, { signal }),
    refetchInterval: EVERY_MS,
  });
}
