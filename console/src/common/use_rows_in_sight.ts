import { type RefObject, useLayoutEffect, useState } from "react";

/** Rows that are drawn above and below the ones in sight. */
const MORE = 4;
/** The drawn rows change in steps of so many, so that a frame of a scroll draws few. */
const STEP = 2;

/** Returns which rows of a list with rows of equal height are to be drawn: those in sight, and some around them. */
export function useRowsInSight(
  list: RefObject<Element | null>,
  count: number,
  rowHeight: number,
): { first: number; end: number } {
  const [first, setFirst] = useState(0);
  useLayoutEffect(() => {
    const measure = () => {
      const above = -(list.current?.getBoundingClientRect().top ?? 0) / rowHeight;
      setFirst(Math.max(0, Math.floor((above - MORE) / STEP) * STEP));
    };
    measure();
    document.addEventListener("scroll", measure, { capture: true, passive: true });
    addEventListener("resize", measure);
    return () => {
      document.removeEventListener("scroll", measure, { capture: true });
      removeEventListener("resize", measure);
    };
  }, [list, rowHeight, count === 0]);
  const drawn = Math.ceil(screen.height / rowHeight) + 2 * MORE + STEP;
  const start = Math.min(first, Math.max(0, count - drawn));
  return { first: start, end: Math.min(count, start + drawn) };
}
