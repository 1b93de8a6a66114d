/** What the pages of prices show, as it is in their addresses. */
export interface PricesSearch {
  q?: string;
  cursor?: string;
}

export const TRADE_KINDS = ["counted", "held", "rejected"] as const;
export type TradeKind = typeof TRADE_KINDS[number];

export interface TokenSearch {
  trades?: TradeKind;
  /** Whether the plot shows also the prices that do not count, on a logarithmic scale. */
  all?: boolean;
}

export function readPrices(search: Record<string, unknown>): PricesSearch {
  return {
    ...(search["q"] ? { q: String(search["q"]) } : {}),
    ...(search["cursor"] ? { cursor: String(search["cursor"]) } : {}),
  };
}

export function readToken(search: Record<string, unknown>): TokenSearch {
  const trades = TRADE_KINDS.find((kind) => kind === search["trades"]);
  return {
    ...(trades ? { trades } : {}),
    ...(search["all"] === true ? { all: true } : {}),
  };
}
