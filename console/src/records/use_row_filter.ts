import { useEffect, useReducer, useRef } from "react";

import { recordText } from "./record_text.ts";
import type { Row } from "./tail_buffer.ts";

/** How long one step may take, so that the page stays responsive with many rows. */
const STEP_MS = 3;
/** How many rows are tested between two checks of the time. */
const BLOCK_ROWS = 50;

/** A search for the rows with a text, in steps. */
class RowSearch {
  readonly rows: Row[] = [];
  /** The sequence number of the next row to test. */
  next = 0;

  constructor(readonly source: Row[], readonly text: string) {}

  /** Tests further rows for a while. Returns whether all are tested. */
  step(): boolean {
    const { source, rows, text } = this;
    const oldest = source[0]?.sequence ?? 0;
    const gone = rows.findIndex(({ sequence }) => sequence >= oldest);
    rows.splice(0, gone < 0 ? rows.length : gone);
    const until = performance.now() + STEP_MS;
    let index = Math.max(0, this.next - oldest);
    while (index < source.length && performance.now() < until) {
      for (const row of source.slice(index, index + BLOCK_ROWS)) {
        if (has(row, text)) rows.push(row);
      }
      index += BLOCK_ROWS;
    }
    index = Math.min(index, source.length);
    this.next = oldest + index;
    return index === source.length;
  }
}

/** Returns the rows that have a text in their key or record; all of them for an empty text. */
export function useRowFilter(source: Row[], text: string): { rows: Row[]; isDone: boolean } {
  const search = useRef<RowSearch>(undefined);
  const [, rerender] = useReducer((times: number) => times + 1, 0);
  if (search.current?.source !== source || search.current.text !== text) {
    search.current = new RowSearch(source, text);
  }
  const isDone = text === "" || search.current.step();
  useEffect(() => {
    if (isDone) return;
    const frame = requestAnimationFrame(rerender);
    return () => cancelAnimationFrame(frame);
  });
  return { rows: text ? search.current.rows : source, isDone };
}

function has(row: Row, text: string): boolean {
  return recordText(row).toLowerCase().includes(text) ||
    (row.key?.toLowerCase().includes(text) ?? false);
}
