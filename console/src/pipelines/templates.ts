import { kafka, type NewFlow, setFilter, v8 } from "headwater-client";

/** A pipeline to begin with. */
export interface Template {
  title: string;
  text: string;
  document: NewFlow;
}

const USDC = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";

export const TEMPLATES: Template[] = [
  {
    title: "Large transfers",
    text: "Transfers of USDC on Base above 10,000, with the amount in dollars.",
    document: {
      name: "large-usdc-transfers",
      tags: ["usdc"],
      pipeline_config: {
        source: { chain: "base", entity: "erc20_token_transfer" },
        transforms: [
          setFilter("root = this.token_address", { name: "token", values: [USDC] }),
          v8(
            `function process(transfer) {
  const usdc = Number(transfer.raw_amount_str) / 1e6;
  return usdc >= 10_000 ? { ...transfer, usdc } : null;
}
`,
            { name: "large" },
          ),
        ],
        sinks: [kafka("transfers")],
      },
    },
  },
  {
    title: "Watch wallets",
    text: "All transfers from or to addresses that you add, at any time and without a deploy.",
    document: {
      name: "watched-wallets",
      tags: ["wallets"],
      pipeline_config: {
        source: { chain: "base", entity: "erc20_token_transfer" },
        transforms: [setFilter("root = [this.from_address, this.to_address]", { name: "wallets" })],
        sinks: [kafka("transfers")],
      },
    },
  },
  {
    title: "Big trades",
    text: "Trades of Hyperliquid above 100,000 dollars.",
    document: {
      name: "big-trades",
      tags: ["trades"],
      pipeline_config: {
        source: { chain: "hyperliquid", entity: "trade" },
        transforms: [
          v8(
            `function process(trade) {
  const dollars = Number(trade.px) * Number(trade.sz);
  return dollars >= 100_000 ? { ...trade, dollars } : null;
}
`,
            { name: "big" },
          ),
        ],
        sinks: [kafka("trades")],
      },
    },
  },
];
