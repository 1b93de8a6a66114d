/** The streams that pipelines can read. */

import { type CallOptions, path, type Session } from "../session.ts";
import { tail, type TailOptions } from "../tail.ts";
import type { Stream, StreamRecord, TailRecord } from "../types.ts";

/** Selects the records of a topic. */
export interface RecordOptions extends CallOptions {
  /** The maximum number of records, up to 1,000; the default is 10. */
  limit?: number;
  /** Reads the first records from this time on, in place of the newest ones. */
  from?: Date | string;
}

/** The streams of the catalog. */
export class Streams {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Returns all streams, each with its schema and an example record. */
  list(options?: CallOptions): Promise<Stream[]> {
    return this.#session.send({ method: "GET", path: path("flow", "streams") }, options);
  }

  /** Returns records of a stream, oldest first. */
  async records(
    chain: string,
    entity: string,
    { limit, from, zerolag, ...options }: RecordOptions & { zerolag?: boolean } = {},
  ): Promise<StreamRecord[]> {
    const address = path("flow", "streams", chain, entity, "records");
    const call = { method: "GET", path: address, query: { limit, from, zerolag } } as const;
    return (await this.#session.send<{ items: StreamRecord[] }>(call, options)).items;
  }

  /** Yields the records that are appended to a stream from now on, at most 200 per second. */
  tail(
    chain: string,
    entity: string,
    { zerolag, ...options }: TailOptions & { zerolag?: boolean } = {},
  ): AsyncGenerator<TailRecord, void> {
    const address = path("flow", "streams", chain, entity, "records", "tail");
    return tail(this.#session, address, { zerolag }, options);
  }
}
