/** Statistics of token prices. */

import { cursorItems, type ListOptions } from "../pages.ts";
import { type CallOptions, path, type Session } from "../session.ts";
import type {
  PricedToken,
  PricedTokenPage,
  PriceExplanation,
  PriceHistory,
  PriceItem,
  PriceStats,
} from "../types.ts";

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

  /**
   * Yields the tokens that had trades lately, with their statistics, sorted by chain and address.
   *
   * `q` is the beginning of the addresses, or of `<chain>:<address>`.
   */
  tokens(
    { q, pageSize = 100, ...options }: ListOptions & { q?: string } = {},
  ): AsyncGenerator<PricedToken, void> {
    return cursorItems(
      this.#session,
      path("developer", "prices", "tokens"),
      { q, limit: pageSize },
      options,
    );
  }

  /** Returns one page of the tokens that `tokens()` yields. */
  tokensPage(
    { q, cursor, limit, ...options }: CallOptions & {
      q?: string | undefined;
      cursor?: string | null | undefined;
      limit?: number | undefined;
    } = {},
  ): Promise<PricedTokenPage> {
    const query = { q, cursor, limit };
    return this.#session.send({
      method: "GET",
      path: path("developer", "prices", "tokens"),
      query,
    }, options);
  }

  /** Returns the prices of a token over time. */
  history(address: string, chain: string, options?: CallOptions): Promise<PriceHistory> {
    const query = { token_address: address, chain };
    return this.#session.send({
      method: "GET",
      path: path("developer", "prices", "history"),
      query,
    }, options);
  }

  /** Returns how the statistics of a token are computed. */
  explain(address: string, chain: string, options?: CallOptions): Promise<PriceExplanation> {
    const query = { token_address: address, chain };
    return this.#session.send({
      method: "GET",
      path: path("developer", "prices", "explain"),
      query,
    }, options);
  }
}
