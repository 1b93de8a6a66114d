/** Statistics of token prices. */

import { type CallOptions, path, type Session } from "../session.ts";
import type { PriceItem, PriceStats } from "../types.ts";

/** A token: its address and its chain. */
export type Token = readonly [address: string, chain: string];

/** Statistics of token prices. */
export class Prices {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Returns the statistics of 1 to 200 tokens. */
  stats(tokens: Iterable<Token>, options?: CallOptions): Promise<PriceStats> {
    const body = Array.from(tokens, ([token_address, chain]) => ({ token_address, chain }));
    const call = { method: "POST", path: path("developer", "prices", "stats"), body } as const;
    return this.#session.send(call, options);
  }

  /** Returns the statistics of one token; null when it has no price. */
  async get(address: string, chain: string, options?: CallOptions): Promise<PriceItem | null> {
    return (await this.stats([[address, chain]], options)).items[0] ?? null;
  }
}
