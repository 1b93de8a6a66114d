import { useEffect, useReducer, useRef } from "react";

import { recordText } from "./record_text.ts";
import type { Row } from "./tail_buffer.ts";

/** How long one step may take, so that the page stays quick with many rows. */
const STEP_MS = 3;
/** How many rows are tested between two looks at the clock. */
const BLOCK_ROWS = 50;

/** Rows with a text, found step by step. */
class Found {
  readonly rows: Row[] = [];
  /** The number of the next row to test. */
  next = 0;

  constructor(readonly source: Row[], readonly text: string) {}

  /** Tests further rows for a while. Returns whether all are tested. */
  step(): boolean {
    const { source, rows, text } = this;
    const oldest = source[0]?.row ?? 0;
    const gone = rows.findIndex(({ row }) => row >= oldest);
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
  const found = useRef<Found>(undefined);
  const [, goOn] = useReducer((times: number) => times + 1, 0);
  if (found.current?.source !== source || found.current.text !== text) {
    found.current = new Found(source, text);
  }
  const isDone = text === "" || found.current.step();
  useEffect(() => {
    if (isDone) return;
    const frame = requestAnimationFrame(goOn);
    return () => cancelAnimationFrame(frame);
  });
  return { rows: text ? found.current.rows : source, isDone };
}

function has(row: Row, text: string): boolean {
  return recordText(row).toLowerCase().includes(text) ||
    (row.key?.toLowerCase().includes(text) ?? false);
}
