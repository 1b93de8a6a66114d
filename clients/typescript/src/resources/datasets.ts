/** Datasets: named sets in which scripts look values up. */

import { linkItems, type ListOptions } from "../pages.ts";
import { type CallOptions, path, type Session } from "../session.ts";
import type { DatasetInfo, EntriesPage } from "../types.ts";
import { type Upload, upload, type UploadOptions, type Values } from "../upload.ts";
import { ValueSet } from "./value_set.ts";

/** A dataset. Changes take effect at once in all scripts. */
export class Dataset extends ValueSet {
  /** @param info Its id, name and times. */
  constructor(session: Session, readonly info: DatasetInfo) {
    super(session, path("flow", "datasets", info.id, "entries"), "limit");
  }

  get id(): string {
    return this.info.id;
  }

  get name(): string {
    return this.info.name;
  }

  /** Returns whether a value is in the dataset. */
  async check(value: string, options?: CallOptions): Promise<boolean> {
    const call = { method: "GET", path: `${this.path}/check`, query: { value } } as const;
    return (await this.session.send<{ exists: boolean }>(call, options)).exists;
  }

  /** Returns one page of values; `values()` yields all of them. */
  page(
    { cursor, limit, ...options }: CallOptions & { cursor?: string | null; limit?: number } = {},
  ): Promise<EntriesPage> {
    return this.session.send({ method: "GET", path: this.path, query: { cursor, limit } }, options);
  }

  /** Deletes the dataset. Scripts that use it fail from then on. */
  delete(options?: CallOptions): Promise<void> {
    return this.session.send(
      { method: "DELETE", path: path("flow", "datasets", this.id) },
      options,
    );
  }
}

/** The datasets of the API key's owner. */
export class Datasets {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Creates an empty dataset. */
  async create(name: string, options?: CallOptions): Promise<Dataset> {
    const call = { method: "POST", path: path("flow", "datasets"), body: { name } } as const;
    return new Dataset(this.#session, await this.#session.send<DatasetInfo>(call, options));
  }

  /** Returns the dataset with this id. Throws NotFound. */
  async get(id: string, options?: CallOptions): Promise<Dataset> {
    const call = { method: "GET", path: path("flow", "datasets", id) } as const;
    return new Dataset(this.#session, await this.#session.send<DatasetInfo>(call, options));
  }

  /** Returns the dataset with this name; null when there is none. */
  async find(name: string, options?: CallOptions): Promise<Dataset | null> {
    const call = { method: "GET", path: path("flow", "datasets"), query: { names: name } } as const;
    const [info] = await this.#session.send<DatasetInfo[]>(call, options);
    return info ? new Dataset(this.#session, info) : null;
  }

  /** Yields the datasets, newest first. */
  async *list(
    { names = [], pageSize = 100, ...options }: ListOptions & { names?: string[] } = {},
  ): AsyncGenerator<Dataset, void> {
    const query = { names, limit: pageSize };
    for await (
      const info of linkItems<DatasetInfo>(
        this.#session,
        path("flow", "datasets"),
        query,
        options,
      )
    ) {
      yield new Dataset(this.#session, info);
    }
  }

  /** Adds any number of values to the dataset with this name. Throws NotFound. */
  addEntries(name: string, values: Values, options: UploadOptions = {}): Promise<Upload> {
    return upload(values, async (batch, batchOptions) => {
      const body = { name, values: batch };
      const call = { method: "POST", path: path("flow", "datasets", "entries"), body } as const;
      const { count, version } = await this.#session.send<{ count: number; version: number }>(
        call,
        batchOptions,
      );
      return { changed: count, version };
    }, options);
  }
}
