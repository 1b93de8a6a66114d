import { Table } from "@mantine/core";
import { type ReactNode, useRef } from "react";

import { useVisibleRows } from "./use_visible_rows.ts";

/** Tables with at most this many rows are rendered completely, so that the browser's search finds all of their text. */
const MAX_COMPLETE = 100;

/** The rows of a table, which have the same height. Of a long table, only the visible rows are rendered. */
export function TableBody<Item>({ items, row, rowHeight }: {
  items: Item[];
  row: (item: Item) => ReactNode;
  rowHeight: number;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const visible = useVisibleRows(body, items.length, rowHeight);
  const { first, end } = items.length > MAX_COMPLETE ? visible : { first: 0, end: items.length };
  return (
    <Table.Tbody ref={body}>
      <Space height={first * rowHeight} />
      {items.slice(first, end).map(row)}
      <Space height={(items.length - end) * rowHeight} />
    </Table.Tbody>
  );
}

/** Takes the place of rows that are not rendered. */
function Space({ height }: { height: number }) {
  return height > 0 && (
    <tr aria-hidden>
      <td style={{ height, padding: 0 }} />
    </tr>
  );
}
