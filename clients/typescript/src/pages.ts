/** Lists that arrive in pages. */

import type { Call, CallOptions, Session } from "./session.ts";

/** Options of a list. */
export interface ListOptions extends CallOptions {
  /** The number of items in one request. */
  pageSize?: number | undefined;
}

interface Page<T> {
  items: T[];
  cursor: string | null;
}

/** Yields the items of all pages of a list whose response has a cursor. */
export async function* cursorItems<T>(
  session: Session,
  path: string,
  query: NonNullable<Call["query"]>,
  options: CallOptions,
): AsyncGenerator<T, void> {
  let cursor: string | null = null;
  do {
    const page: Page<T> = await session.send(
      { method: "GET", path, query: { ...query, cursor } },
      options,
    );
    yield* page.items;
    cursor = page.cursor;
  } while (cursor !== null);
}

/** Yields the items of all pages of a list whose next page is named by the header `Link`. */
export async function* linkItems<T>(
  session: Session,
  path: string,
  query: NonNullable<Call["query"]>,
  options: CallOptions,
): AsyncGenerator<T, void> {
  let cursor: string | null = null;
  do {
    const call: Call = { method: "GET", path, query: { ...query, cursor } };
    const page = await session.request<T[]>(call, options);
    yield* page.body;
    cursor = nextCursor(page.headers);
  } while (cursor !== null);
}

/** Returns the cursor in the header `Link` (RFC 8288); null on the last page. */
export function nextCursor(headers: Headers): string | null {
  const found = /<([^>]*)>\s*;[^,]*\brel="?next"?/.exec(headers.get("Link") ?? "");
  return found?.[1] ? new URL(found[1], "http://localhost").searchParams.get("cursor") : null;
}
