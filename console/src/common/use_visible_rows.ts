import { type RefObject, useLayoutEffect, useState } from "react";

/** How many rows are rendered above and below the visible ones. */
const OVERSCAN_ROWS = 4;
/** By how many rows the rendered part moves at once. A small step keeps the frames of a scroll short. */
const STEP_ROWS = 2;

/** Returns which rows of a list to render: the visible ones and some around them. All rows have the same height. */
export function useVisibleRows(
  list: RefObject<Element | null>,
  count: number,
  rowHeight: number,
): { first: number; end: number } {
  const [first, setFirst] = useState(0);
  useLayoutEffect(() => {
    const measure = () => {
      const above = -(list.current?.getBoundingClientRect().top ?? 0) / rowHeight;
      setFirst(Math.max(0, Math.floor((above - OVERSCAN_ROWS) / STEP_ROWS) * STEP_ROWS));
    };
    measure();
    document.addEventListener("scroll", measure, { capture: true, passive: true });
    addEventListener("resize", measure);
    return () => {
      document.removeEventListener("scroll", measure, { capture: true });
      removeEventListener("resize", measure);
    };
  }, [list, rowHeight, count === 0]);
  const rendered = Math.ceil(screen.height / rowHeight) + 2 * OVERSCAN_ROWS + STEP_ROWS;
  const start = Math.min(first, Math.max(0, count - rendered));
  return { first: start, end: Math.min(count, start + rendered) };
}
