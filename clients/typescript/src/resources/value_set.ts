/** The common part of filters and datasets: a set of values that changes without a deploy. */

import type { ListOptions } from "../pages.ts";
import type { CallOptions, Session } from "../session.ts";
import type { Applied } from "../types.ts";
import { type Upload, upload, type UploadOptions, type Values } from "../upload.ts";

interface WriteResponse {
  version: number;
  count?: number;
  added?: number;
  removed?: number;
}

interface ValuesPage {
  values: string[];
  cursor: number | string | null;
}

/** A set of values behind one path. */
export class ValueSet {
  protected readonly session: Session;
  protected readonly path: string;
  readonly #pageParameter: string;

  constructor(session: Session, path: string, pageParameter: "count" | "limit") {
    this.session = session;
    this.path = path;
    this.#pageParameter = pageParameter;
  }

  /** Adds any number of values, in batches of up to 250,000, two at once. Duplicates are ignored. */
  add(values: Values, options: UploadOptions = {}): Promise<Upload> {
    return this.#write("POST", values, options);
  }

  /** Removes any number of values, in batches of up to 250,000, two at once. Unknown values are ignored. */
  remove(values: Values, options: UploadOptions = {}): Promise<Upload> {
    return this.#write("DELETE", values, options);
  }

  /** Yields all values. One that is in the set during the whole listing is yielded exactly once. */
  async *values({ pageSize = 10_000, ...options }: ListOptions = {}): AsyncGenerator<string, void> {
    let cursor: number | string | null = null;
    do {
      const page: ValuesPage = await this.session.send(
        { method: "GET", path: this.path, query: { cursor, [this.#pageParameter]: pageSize } },
        options,
      );
      yield* page.values;
      cursor = page.cursor;
    } while (cursor !== null);
  }

  /** Returns whether every worker has read a version of the set; waits up to 30 s for it. */
  applied(
    { version, waitS, ...options }: CallOptions & { version?: number; waitS?: number } = {},
  ): Promise<Applied> {
    const query = { version, wait: waitS };
    return this.session.send({ method: "GET", path: `${this.path}/applied`, query }, options);
  }

  #write(method: "POST" | "DELETE", values: Values, options: UploadOptions): Promise<Upload> {
    return upload(values, async (batch, batchOptions) => {
      const call = { method, path: this.path, body: { values: batch } };
      const { version, count, added, removed } = await this.session.send<WriteResponse>(
        call,
        batchOptions,
      );
      return { version, changed: count ?? added ?? removed ?? 0 };
    }, options);
  }
}
