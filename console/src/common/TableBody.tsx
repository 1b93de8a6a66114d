import { Table } from "@mantine/core";
import { type ReactNode, useRef } from "react";

import { useRowsInSight } from "./use_rows_in_sight.ts";

/** Tables with fewer rows are drawn as a whole, so that the browser finds all of their words. */
const ALL = 100;

/** The rows of a table, of equal height; of a long table only the rows in sight are drawn. */
export function TableBody<Item>({ items, row, rowHeight }: {
  items: Item[];
  row: (item: Item) => ReactNode;
  rowHeight: number;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const inSight = useRowsInSight(body, items.length, rowHeight);
  const { first, end } = items.length > ALL ? inSight : { first: 0, end: items.length };
  return (
    <Table.Tbody ref={body}>
      <Space height={first * rowHeight} />
      {items.slice(first, end).map(row)}
      <Space height={(items.length - end) * rowHeight} />
    </Table.Tbody>
  );
}

/** The place of rows that are not drawn. */
function Space({ height }: { height: number }) {
  return height > 0 && (
    <tr aria-hidden>
      <td style={{ height, padding: 0 }} />
    </tr>
  );
}
