/** The sets of `redis_set_filter` transforms. */

import { type CallOptions, path, type Session } from "../session.ts";
import type { FilterCount, FilterPage } from "../types.ts";
import { type Values, valuesBlob } from "../upload.ts";
import { ValueSet } from "./value_set.ts";

/** The set of one filter. Changes take effect at once, without a deploy. */
export class Filter extends ValueSet {
  /** @param uid The uid of the transform. */
  constructor(session: Session, configId: string, readonly uid: string) {
    super(session, path("flow", configId, "transforms", uid, "filter-values"), "count");
  }

  /**
   * Replaces all values at once with any number of values, in one request.
   *
   * A Blob, for example a file, is sent as it is: it is the JSON `{"values": […]}`.
   */
  async replace(values: Values | Blob, options?: CallOptions): Promise<FilterCount> {
    const body = values instanceof Blob ? values : await valuesBlob(values);
    return await this.session.send({ method: "PUT", path: this.path, body }, options);
  }

  /** Returns whether a value is in the set. */
  async check(value: string, options?: CallOptions): Promise<boolean> {
    const call = { method: "GET", path: `${this.path}/check`, query: { value } } as const;
    return (await this.session.send<{ is_member: boolean }>(call, options)).is_member;
  }

  /** Returns the number of values, and the version of the set. */
  count(options?: CallOptions): Promise<FilterCount> {
    return this.session.send({ method: "GET", path: `${this.path}/count` }, options);
  }

  /** Returns one page of values; `values()` yields all of them. */
  page(
    { cursor, count, ...options }: CallOptions & { cursor?: number | null; count?: number } = {},
  ): Promise<FilterPage> {
    return this.session.send({ method: "GET", path: this.path, query: { cursor, count } }, options);
  }
}
