/** Sends calls, retries them after some failures, and turns responses into values or errors. */

import {
  ConnectionFailed,
  DeployPending,
  errorOf,
  RateLimited,
  RequestFailed,
  TimedOut,
  Unavailable,
  UnexpectedResponse,
} from "./errors.ts";
import { parseJson, stringifyJson } from "./json.ts";

/** A deploy is answered within 60 s. */
const DEFAULT_TIMEOUT_MS = 70_000;
const DEFAULT_RETRIES = 5;
const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 10_000;

/** Options of every call. */
export interface CallOptions {
  /** Ends the call; it then throws the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** The milliseconds to wait for the response; the default is 70,000. */
  timeoutMs?: number | undefined;
}

/** Options of a client. */
export interface ClientOptions {
  /** The address of the server: in a browser by default the origin of the page. */
  url?: string;
  /** The API key. Only `signIn` needs none. */
  key?: string;
  timeoutMs?: number;
  /** How often a request is sent again after 429, 503 and broken connections. */
  retries?: number;
  /** Sends the requests in place of the global `fetch`. */
  fetch?: typeof fetch;
}

export type QueryValue = string | number | boolean | Date | null | undefined;

/** One request. */
export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  /** Members that are null or undefined are left out; arrays are repeated. */
  query?: Record<string, QueryValue | QueryValue[]> | undefined;
  /** The JSON body; a Blob is sent as it is. */
  body?: unknown;
  headers?: Record<string, string> | undefined;
  /** The milliseconds to wait for a deploy in progress; without it, the number of retries limits the wait. */
  deployWaitMs?: number | undefined;
  /** Whether the request may be sent again after a failure; true by default. */
  retriable?: boolean;
}

/** The parsed body of a response, with its headers. */
export interface ParsedResponse<T> {
  body: T;
  headers: Headers;
}

/** Returns the path of a resource below `/api/v1`. */
export function path(...segments: (string | number)[]): string {
  return "/api/v1/" + segments.map((segment) => encodeURIComponent(segment)).join("/");
}

/** A connection to a server, which all objects of a client share. */
export class Session {
  readonly url: string;
  readonly #key: string;
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #fetch: typeof fetch;

  constructor({ url, key, timeoutMs, retries, fetch: send }: ClientOptions) {
    this.url = (url ?? globalThis.location?.origin ?? "").replace(/\/+$/, "");
    this.#key = key ?? "";
    this.#timeoutMs = timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#retries = retries ?? DEFAULT_RETRIES;
    this.#fetch = send ?? ((input, init) => fetch(input, init));
  }

  /** Sends a call, and returns the parsed body of the response. */
  async send<T>(call: Call, options: CallOptions = {}): Promise<T> {
    return (await this.request<T>(call, options)).body;
  }

  /** Sends a call, and returns the parsed body and the headers of the response. */
  request<T>(call: Call, options: CallOptions = {}): Promise<ParsedResponse<T>> {
    return this.#retry(call, options, async (response) => {
      const text = await response.text();
      return { body: parsed(call, text) as T, headers: response.headers };
    });
  }

  /** Sends a call, and returns its response as soon as the headers have arrived. */
  open(call: Call, options: CallOptions = {}): Promise<Response> {
    return this.#retry(call, options, (response) => Promise.resolve(response));
  }

  /** Sends a call, and sends it again after some failures. */
  async #retry<T>(
    call: Call,
    options: CallOptions,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const idempotencyKey = crypto.randomUUID();
    const retries = call.retriable === false ? 0 : this.#retries;
    const begunAt = Date.now();
    let failures = 0;
    for (let attempt = 0;; attempt++) {
      try {
        return await this.#attempt(call, options, idempotencyKey, read);
      } catch (error) {
        const waitMs = error instanceof DeployPending ? call.deployWaitMs : undefined;
        const delayMs = retryDelayMs(error, attempt);
        const isOver = waitMs === undefined
          ? failures++ >= retries || !isRetriable(error)
          : Date.now() - begunAt + delayMs >= waitMs;
        if (isOver) throw error;
        await sleep(delayMs, options.signal);
      }
    }
  }

  async #attempt<T>(
    call: Call,
    { signal, timeoutMs }: CallOptions,
    idempotencyKey: string,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), timeoutMs ?? this.#timeoutMs);
    const either = signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal;
    try {
      const response = await this.#fetch(this.#address(call), {
        method: call.method,
        headers: this.#headers(call, idempotencyKey),
        body: bodyOf(call),
        signal: either,
        cache: "no-store",
        credentials: "omit",
      });
      if (response.ok) return await read(response);
      throw errorOf(response.status, response.headers, await response.text());
    } catch (error) {
      if (error instanceof RequestFailed || error instanceof UnexpectedResponse) throw error;
      signal?.throwIfAborted();
      if (timeout.signal.aborted) throw new TimedOut(`${this.url} did not respond in time.`);
      throw new ConnectionFailed(`The connection to ${this.url} failed: ${messageOf(error)}`, {
        cause: error,
      });
    } finally {
      clearTimeout(timer);
    }
  }

  #address(call: Call): string {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {})) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each === null || each === undefined) continue;
        query.append(name, each instanceof Date ? each.toISOString() : String(each));
      }
    }
    return this.url + call.path + (query.size ? `?${query}` : "");
  }

  #headers(call: Call, idempotencyKey: string): Headers {
    const headers = new Headers(call.headers);
    if (this.#key) headers.set("X-API-Key", this.#key);
    if (call.body !== undefined) headers.set("Content-Type", "application/json");
    if (["POST", "PUT", "PATCH"].includes(call.method)) {
      headers.set("Idempotency-Key", idempotencyKey);
    }
    return headers;
  }
}

/** Waits. Throws the reason of the signal when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const abort = () => reject(signal?.reason);
  if (signal?.aborted) abort();
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", abort, { once: true });
  return promise.finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  });
}

/** Whether the request may be sent again: after 429, 503 and a broken connection. */
function isRetriable(error: unknown): boolean {
  if (error instanceof TimedOut) return false;
  return error instanceof RateLimited || error instanceof Unavailable ||
    error instanceof ConnectionFailed;
}

/** The milliseconds until the next attempt: `Retry-After`, or else a growing random time. */
function retryDelayMs(error: unknown, attempt: number): number {
  if (error instanceof RequestFailed && error.retryAfter !== undefined) {
    return error.retryAfter * 1000;
  }
  return Math.random() * Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt);
}

function bodyOf({ body }: Call): BodyInit | null {
  if (body === undefined) return null;
  return body instanceof Blob ? body : stringifyJson(body);
}

function parsed(call: Call, text: string): unknown {
  if (text === "") return undefined;
  try {
    return parseJson(text);
  } catch (error) {
    throw new UnexpectedResponse(`${call.method} ${call.path} did not return JSON.`, {
      cause: error,
    });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
