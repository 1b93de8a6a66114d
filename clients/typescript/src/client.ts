/** The client, from which all resources are reached. */

import { Datasets } from "./resources/datasets.ts";
import { Flows } from "./resources/flows.ts";
import { Prices } from "./resources/prices.ts";
import { Streams } from "./resources/streams.ts";
import { type CallOptions, type ClientOptions, path, Session } from "./session.ts";
import { tail, type TailEvent, tailEvents, type TailOptions } from "./tail.ts";
import type { ApiKey, Quota, Readiness, SignedIn, TailRecord } from "./types.ts";

const SIGN_IN = path("flow", "sign-in");

/** Exchanges a one-time code for an API key. A code works once, so this is never retried. */
export function signIn(code: string, options: ClientOptions & CallOptions = {}): Promise<SignedIn> {
  const call = { method: "POST", path: SIGN_IN, body: { code }, retriable: false } as const;
  return new Session(options).send(call, options);
}

/** The client of one server. */
export class Headwater {
  /** The pipelines. */
  readonly flows: Flows;
  /** The datasets. */
  readonly datasets: Datasets;
  /** The streams that pipelines read. */
  readonly streams: Streams;
  /** Statistics of token prices. */
  readonly prices: Prices;
  readonly #session: Session;

  constructor(options: ClientOptions) {
    this.#session = new Session(options);
    this.flows = new Flows(this.#session);
    this.datasets = new Datasets(this.#session);
    this.streams = new Streams(this.#session);
    this.prices = new Prices(this.#session);
  }

  /** The address of the server. */
  get url(): string {
    return this.#session.url;
  }

  /** Returns the owner, the id, the scopes and the expiry of the API key. */
  me(options?: CallOptions): Promise<ApiKey> {
    return this.#session.send({ method: "GET", path: path("flow", "me") }, options);
  }

  /** Revokes the API key, if it came from a one-time code. */
  async signOut(options?: CallOptions): Promise<void> {
    await this.#session.send({ method: "DELETE", path: SIGN_IN, retriable: false }, options);
  }

  /** Returns the usage and the limit of each quota. */
  async limits(options?: CallOptions): Promise<Quota[]> {
    const call = { method: "GET", path: path("flow", "limits") } as const;
    return (await this.#session.send<{ limits: Quota[] }>(call, options)).limits;
  }

  /**
   * Returns whether the server is ready, and the state of each service that it needs.
   *
   * Throws Unavailable when it is not ready; the problem's detail names the services.
   */
  readiness(options?: CallOptions): Promise<Readiness> {
    return this.#session.send({ method: "GET", path: "/readyz", retriable: false }, options);
  }

  /**
   * Yields the new records of up to 10 streams and sinks; `of` of a record names the stream or sink.
   *
   * `of` has `<chain>/<entity>`, `<chain>/<entity>.zerolag`, `<config id>/<sink>` or `<config id>/dlq`.
   */
  tail(of: string[], options: TailOptions = {}): AsyncGenerator<TailRecord, void> {
    return tail(this.#session, path("flow", "tail"), { of }, options);
  }

  /** Yields the events of a tail: opened, batches of records, skipped records, broken and ended. */
  tailEvents(of: string[], options: CallOptions = {}): AsyncGenerator<TailEvent, void> {
    return tailEvents(this.#session, path("flow", "tail"), { of }, options);
  }
}
