/** Sends any number of values in parts, several at once. */

import type { CallOptions } from "./session.ts";

/** The most values that one request may have. */
export const PART_VALUES = 250_000;
/** How many parts are sent at once; a browser has few connections, and others need them too. */
const PARALLEL_PARTS = 2;
/** Values of a long body that are encoded at once. */
const BLOCK_VALUES = 20_000;

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
  /** So many values from the beginning are all stored. An upload that broke off can continue there. */
  complete: number;
}

/** Options of an upload. */
export interface UploadOptions extends CallOptions {
  /** Called after each part. */
  onProgress?: (upload: Upload) => void;
  /** How many parts are sent at once; the default is 2. */
  parallel?: number;
}

/** What the server has done with a part. */
export interface Written {
  changed: number;
  version: number;
}

/** Sends values in parts of 250,000, and holds only these parts in memory. */
export async function upload(
  values: Values,
  send: (part: string[], options: CallOptions) => Promise<Written>,
  { onProgress, parallel = PARALLEL_PARTS, ...options }: UploadOptions,
): Promise<Upload> {
  const total: Upload = { sent: 0, changed: 0, version: 0, complete: 0 };
  const ends = new Map<number, number>();
  const source = blocks(values, PART_VALUES);
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  let start = 0;

  const sendParts = async () => {
    for (let next = await source.next(); !next.done; next = await source.next()) {
      const part = next.value;
      const begin = start;
      start += part.length;
      const { changed, version } = await send(part, { ...options, signal });
      ends.set(begin, begin + part.length);
      total.sent += part.length;
      total.changed += changed;
      total.version = Math.max(total.version, version);
      for (let end = ends.get(total.complete); end !== undefined; end = ends.get(end)) {
        total.complete = end;
      }
      onProgress?.({ ...total });
    }
  };
  const senders = Array.from({ length: parallel }, sendParts);
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

/** Encodes `{"values": […]}` part by part; the browser keeps a large Blob outside of the page's memory. */
export async function valuesBlob(values: Values): Promise<Blob> {
  const parts: Blob[] = [];
  for await (const block of blocks(values, BLOCK_VALUES)) {
    const separator = parts.length ? "," : '{"values":[';
    parts.push(new Blob([separator, JSON.stringify(block).slice(1, -1)]));
  }
  return new Blob([...(parts.length ? parts : ['{"values":[']), "]}"]);
}

async function* blocks(values: Values, size: number): AsyncGenerator<string[], void> {
  if (typeof values === "string") {
    throw new TypeError("The values are one text. Pass a list of texts.");
  }
  let block: string[] = [];
  for await (const value of values) {
    block.push(value);
    if (block.length === size) {
      yield block;
      block = [];
    }
  }
  if (block.length) yield block;
}
