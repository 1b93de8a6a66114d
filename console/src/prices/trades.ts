import type { PriceExplanation } from "headwater-client";

import { usd } from "../common/numbers.ts";
import type { TradeKind } from "./search.ts";

/** A trade, and why it counts or does not count. */
export interface Trade {
  timestamp: string;
  price: number;
  kind: TradeKind;
  why: string;
}

/** Returns the trades of an explanation, the newest first. */
export function tradesOf({ accepted, unaccepted, bands }: PriceExplanation): Trade[] {
  const counted = accepted.map((point): Trade => ({
    ...point,
    kind: "counted",
    why: whyCounted(point.price, bands),
  }));
  const others = unaccepted.map(({ status, reason, ...point }): Trade => ({
    ...point,
    kind: status,
    why: reason,
  }));
  return [...counted, ...others].sort((one, other) =>
    Date.parse(other.timestamp) - Date.parse(one.timestamp)
  );
}

function whyCounted(price: number, bands: PriceExplanation["bands"]): string {
  if (!bands.some(({ established }) => established)) {
    return "No band has enough minutes with trades yet, so all prices count.";
  }
  const band = bands.find((each) => each.min_price <= price && price < each.max_price);
  if (!band) return "";
  const prices = `Prices from ${usd(band.min_price)} to ${usd(band.max_price)}`;
  return band.established
    ? `${prices} have trades in ${band.active_minutes} minutes.`
    : `${prices} are next to prices with enough trades.`;
}
