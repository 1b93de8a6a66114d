/** Sends any number of values in batches, in several requests at once. */

import type { CallOptions } from "./session.ts";

/** The maximum number of values in one request. */
export const REQUEST_BATCH_VALUES = 250_000;
/** The number of values in the first request. Each further request has twice as many, up to the maximum. */
const FIRST_BATCH_VALUES = 10_000;
/** The number of requests at once; a browser has few connections, and other calls need them too. */
const PARALLEL_REQUESTS = 2;
/** The number of values of a long body that are encoded at once. */
const ENCODE_BATCH_VALUES = 20_000;

/** Values in any iterable of any length. */
export type Values = Iterable<string> | AsyncIterable<string>;

/** How far an upload is, or how it has ended. */
export interface Upload {
  /** How many values the server has stored. */
  sent: number;
  /** How many of them were new, or were removed. */
  changed: number;
  /** The version of the set after the last write. */
  version: number;
  /** The number of values from the beginning that are all stored. A failed upload can continue there. */
  complete: number;
}

/** Options of an upload. */
export interface UploadOptions extends CallOptions {
  /** Called after each batch. */
  onProgress?: (upload: Upload) => void;
  /** The number of requests at once; the default is 2. */
  parallel?: number;
}

/** What the server has done with a batch. */
export interface Written {
  changed: number;
  version: number;
}

/**
 * Sends values in batches, and holds only these batches in memory. The first batches are small, so that the progress is
 * known early, and a short upload can be stopped and resumed.
 */
export async function upload(
  values: Values,
  send: (batch: string[], options: CallOptions) => Promise<Written>,
  { onProgress, parallel = PARALLEL_REQUESTS, ...options }: UploadOptions,
): Promise<Upload> {
  const total: Upload = { sent: 0, changed: 0, version: 0, complete: 0 };
  const ends = new Map<number, number>();
  const source = batches(values, FIRST_BATCH_VALUES, REQUEST_BATCH_VALUES);
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  let start = 0;

  const sendBatches = async () => {
    for (let next = await source.next(); !next.done; next = await source.next()) {
      const batch = next.value;
      const begin = start;
      start += batch.length;
      const { changed, version } = await send(batch, { ...options, signal });
      ends.set(begin, begin + batch.length);
      total.sent += batch.length;
      total.changed += changed;
      total.version = Math.max(total.version, version);
      for (let end = ends.get(total.complete); end !== undefined; end = ends.get(end)) {
        total.complete = end;
      }
      onProgress?.({ ...total });
    }
  };
  const senders = Array.from({ length: parallel }, sendBatches);
  try {
    await Promise.all(senders);
  } catch (error) {
    stop.abort(error);
    await Promise.allSettled(senders);
    throw error;
  } finally {
    await source.return(undefined);
  }
  return total;
}

/** Encodes `{"values": […]}` in batches; the browser keeps a large Blob outside of the page's memory. */
export async function valuesBlob(values: Values): Promise<Blob> {
  const parts: Blob[] = [];
  for await (const batch of batches(values, ENCODE_BATCH_VALUES, ENCODE_BATCH_VALUES)) {
    const separator = parts.length ? "," : '{"values":[';
    parts.push(new Blob([separator, JSON.stringify(batch).slice(1, -1)]));
  }
  return new Blob([...(parts.length ? parts : ['{"values":[']), "]}"]);
}

/** Yields the values in batches. Each batch is twice as large as the one before it, up to a maximum. */
async function* batches(
  values: Values,
  firstSize: number,
  maxSize: number,
): AsyncGenerator<string[], void> {
  if (typeof values === "string") {
    throw new TypeError("`values` is a single string. Pass an array of strings.");
  }
  let [batch, size]: [string[], number] = [[], firstSize];
  for await (const value of values) {
    batch.push(value);
    if (batch.length === size) {
      yield batch;
      [batch, size] = [[], Math.min(2 * size, maxSize)];
    }
  }
  if (batch.length) yield batch;
}
