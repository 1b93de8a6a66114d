/** A `fetch` that answers from a list, and remembers the requests. */

import { Headwater } from "../src/index.ts";

export interface Seen {
  method: string;
  url: URL;
  headers: Headers;
  body: string;
}

export type Reply = (seen: Seen) => Response | Promise<Response>;

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers });
}

export function problem(status: number, members: Record<string, unknown> = {}): Response {
  const { retryAfter, ...rest } = members;
  const headers = retryAfter === undefined ? {} : { "Retry-After": String(retryAfter) };
  return json(
    { type: "about:blank", title: "Problem", status, detail: "", ...rest },
    status,
    headers,
  );
}

/** Returns a client whose n-th request gets the n-th reply; the last reply is repeated. */
export function stubbed(...replies: Reply[]): { hw: Headwater; seen: Seen[] } {
  const seen: Seen[] = [];
  const send = async (input: RequestInfo | URL, init?: RequestInit) => {
    init?.signal?.throwIfAborted();
    const body = init?.body instanceof Blob ? await init.body.text() : String(init?.body ?? "");
    const request = {
      method: init?.method ?? "GET",
      url: new URL(String(input)),
      headers: new Headers(init?.headers),
      body,
    };
    seen.push(request);
    return await replies[Math.min(seen.length, replies.length) - 1]!(request);
  };
  const fetch = send as typeof globalThis.fetch;
  return { hw: new Headwater({ url: "http://headwater.test/", key: "hw_live_x", fetch }), seen };
}
