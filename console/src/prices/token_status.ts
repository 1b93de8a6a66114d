import type { PricedToken } from "headwater-client";
import { CircleCheck, CircleHelp, Clock, Hand } from "lucide-react";

import { duration } from "../common/numbers.ts";
import type { Look } from "../common/StateBadge.tsx";

type Status = PricedToken["status"];

const UNPRICED: Look = { word: "No price", color: "gray", Icon: CircleHelp };
const LOOKS: Record<Status, Look> = {
  ok: { word: "Current", color: "green", Icon: CircleCheck },
  held: { word: "Held", color: "yellow", Icon: Hand },
  stale: { word: "Stale", color: "gray", Icon: Clock },
  unknown_token: UNPRICED,
  unknown_chain: UNPRICED,
};

export function lookOf(status: Status): Look {
  return LOOKS[status];
}

/** Says what is wrong with the price of a token; empty when nothing is. */
export function sentenceOf(
  { status, quote_stale, held_since = null }: {
    status: Status;
    quote_stale: boolean;
    held_since?: string | null;
  },
  now: number,
): string {
  const since = held_since ? ` for ${duration(Math.max(0, now - Date.parse(held_since)))}` : "";
  const sentence = {
    ok: "",
    held: `Newer trades are far from the usual prices${since}, and do not count yet.`,
    stale: "It had no trade for 7 days.",
    unknown_token: "It has no trades.",
    unknown_chain: "There is no such network.",
  }[status];
  const quote = quote_stale ? "The price of its quote token is older than an hour." : "";
  return [sentence, quote].filter(Boolean).join(" ");
}
