/** Live tails: server-sent events, with a new connection when one ends. */

import {
  ConnectionFailed,
  RateLimited,
  RequestFailed,
  ServerError,
  Unavailable,
} from "./errors.ts";
import { parseJson } from "./json.ts";
import { type Call, type CallOptions, type Session, sleep } from "./session.ts";
import type { Skipped, TailEnd, TailRecord } from "./types.ts";

/** The server sends a comment every 10 s, so a connection that is silent for longer is broken. */
const SILENCE_MS = 30_000;
const RECONNECT_MS = 500;
/** The seconds after which a tail that the server has refused is opened again, unless the server names others. */
const REFUSED_S = 2;
/** Reasons for the end of a tail after which a new connection would get no records. */
const FINAL_REASONS = new Set(["deployment_ended", "topic_removed", "key_ended"]);

/** An event of a live tail. */
export type TailEvent =
  | { kind: "open" }
  | { kind: "records"; records: TailRecord[] }
  | { kind: "skipped"; skipped: Skipped }
  | { kind: "end"; end: TailEnd }
  | { kind: "broken"; error: Error };

/** Options of a live tail. */
export interface TailOptions extends CallOptions {
  /** Called when a connection is open: records that are appended from then on are shown. */
  onOpen?: () => void;
  /** Called when the server leaves records out, because they are too many. */
  onSkipped?: (skipped: Skipped) => void;
}

/** Yields the records that are appended from now on, until all tails have ended for good. */
export async function* tail(
  session: Session,
  path: string,
  query: NonNullable<Call["query"]>,
  { onOpen, onSkipped, ...options }: TailOptions,
): AsyncGenerator<TailRecord, void> {
  for await (const event of tailEvents(session, path, query, options)) {
    if (event.kind === "open") onOpen?.();
    if (event.kind === "skipped") onSkipped?.(event.skipped);
    if (event.kind === "records") yield* event.records;
  }
}

/**
 * Yields the events of a tail, until all tails of the connection have ended for good.
 *
 * A connection that breaks or ends is opened again, as often as it takes; what was appended meanwhile is not shown.
 */
export async function* tailEvents(
  session: Session,
  path: string,
  query: NonNullable<Call["query"]>,
  options: CallOptions,
): AsyncGenerator<TailEvent, void> {
  // The streams and sinks of the tails that are open; none when the path names the only one.
  let of = Array.isArray(query["of"]) ? query["of"] : [];
  let isOpen = true;
  while (isOpen) {
    let waitMs = RECONNECT_MS;
    const call: Call = { method: "GET", path, query: { ...query, of } };
    try {
      const response = await session.open(call, options);
      yield { kind: "open" };
      for await (const event of readEvents(response, options.signal)) {
        yield event;
        if (event.kind === "end" && FINAL_REASONS.has(event.end.reason)) {
          const ended = event.end.of;
          of = of.filter((name) => ended !== undefined && name !== ended);
          isOpen = of.length > 0;
        }
      }
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!isTemporary(error)) throw error;
      yield { kind: "broken", error };
      if (error instanceof RequestFailed) waitMs = 1000 * (error.retryAfter ?? REFUSED_S);
    }
    if (isOpen) await sleep(waitMs, options.signal);
  }
}

/** Whether a new connection may succeed later. */
function isTemporary(error: unknown): error is Error {
  return error instanceof ConnectionFailed || error instanceof Unavailable ||
    error instanceof RateLimited || error instanceof ServerError;
}

/** Yields the events of a response. Throws ConnectionFailed when it breaks or is silent. */
async function* readEvents(response: Response, signal?: AbortSignal): AsyncGenerator<TailEvent> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await inTime(reader.read(), signal);
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop()!;
      for (const event of events) {
        const parsed = parseEvent(event);
        if (parsed) yield parsed;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function inTime<T>(reading: Promise<T>, signal?: AbortSignal): Promise<T> {
  const silence = new AbortController();
  const ends = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal;
  const silent = sleep(SILENCE_MS, ends).then(() => {
    throw new ConnectionFailed("The connection was silent for too long.");
  });
  silent.catch(() => undefined);
  try {
    return await Promise.race([reading, silent]);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof ConnectionFailed) throw error;
    throw new ConnectionFailed("The connection broke.", { cause: error });
  } finally {
    silence.abort();
  }
}

function parseEvent(text: string): TailEvent | undefined {
  const lines = text.split("\n");
  const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
  const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
  if (name === undefined || data === undefined) return undefined;
  if (name === "records") return { kind: "records", records: parseJson(data) as TailRecord[] };
  if (name === "skipped") return { kind: "skipped", skipped: parseJson(data) as Skipped };
  if (name === "end") return { kind: "end", end: parseJson(data) as TailEnd };
  return undefined;
}
