import { Box, Text, useMatches } from "@mantine/core";
import { type CSSProperties, memo, useLayoutEffect, useRef } from "react";

import { useRowsInSight } from "../common/use_rows_in_sight.ts";
import { recordText } from "./record_text.ts";
import type { Row } from "./tail_buffer.ts";

const ROW_HEIGHT = 28;
/** As many as fit into the width of a screen, and some more. */
const PREVIEW_CHARACTERS = Math.ceil(screen.width / 6);
const COLUMNS = "96px 90px 170px 1fr";
const NARROW_COLUMNS = "96px 1fr";
const WIDE_ONLY = "mantine-visible-from-sm";

/**
 * Records, the newest first; only the rows in sight are drawn. Who has scrolled keeps the same rows in sight.
 * A narrow page has no positions and keys.
 */
export function RecordList({ rows, selected, select, height }: {
  rows: Row[];
  selected: number | undefined;
  select: (row: Row) => void;
  height: string;
}) {
  const columns = useMatches({ base: NARROW_COLUMNS, sm: COLUMNS });
  const viewport = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const { first, end } = useRowsInSight(list, rows.length, ROW_HEIGHT);
  const newest = rows.at(-1)?.row ?? 0;
  const newestBefore = useRef(newest);
  useLayoutEffect(() => {
    const more = rows.length - 1 - rows.findLastIndex(({ row }) => row <= newestBefore.current);
    newestBefore.current = newest;
    const { current } = viewport;
    if (current && current.scrollTop > 0 && more > 0) current.scrollTop += more * ROW_HEIGHT;
  }, [rows, newest]);
  return (
    <Box __vars={{ "--columns": columns }}>
      <Box display="grid" px="xs" pb={4} style={{ gridTemplateColumns: "var(--columns)", gap: 8 }}>
        <Text size="xs" fw={600}>Time</Text>
        <Text size="xs" fw={600} visibleFrom="sm">Position</Text>
        <Text size="xs" fw={600} visibleFrom="sm">Key</Text>
        <Text size="xs" fw={600}>Record</Text>
      </Box>
      <Box
        ref={viewport}
        h={height}
        style={SCROLLED}
        tabIndex={0}
        role="region"
        aria-label="Records"
      >
        <Box ref={list} pos="relative" h={rows.length * ROW_HEIGHT}>
          <Box pos="absolute" top={first * ROW_HEIGHT} left={0} right={0} ff="monospace" fz="xs">
            {rows.slice(rows.length - end, rows.length - first).reverse().map((row) => (
              <RecordRow
                key={row.row}
                row={row}
                isSelected={row.row === selected}
                select={select}
              />
            ))}
          </Box>
        </Box>
      </Box>
    </Box>
  );
}

const SCROLLED: CSSProperties = { overflowY: "auto", overflowX: "hidden", contain: "strict" };
const ROW: CSSProperties = {
  display: "grid",
  gridTemplateColumns: "var(--columns)",
  gap: 8,
  alignItems: "center",
  width: "100%",
  height: ROW_HEIGHT,
  padding: "0 var(--mantine-spacing-xs)",
  border: 0,
  background: "none",
  color: "inherit",
  font: "inherit",
  textAlign: "left",
  cursor: "pointer",
  outlineOffset: -2,
  contain: "strict",
};
const SELECTED = { ...ROW, background: "var(--mantine-primary-color-light)" };
const CELL: CSSProperties = { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" };
const DIMMED = { ...CELL, color: "var(--mantine-color-dimmed)" };

/** One record in plain elements: hundreds of rows a second are drawn. */
const RecordRow = memo(function RecordRow({ row, isSelected, select }: {
  row: Row;
  isSelected: boolean;
  select: (row: Row) => void;
}) {
  return (
    <button
      type="button"
      className="mantine-focus-auto"
      style={isSelected ? SELECTED : ROW}
      onClick={() => select(row)}
    >
      <span style={DIMMED}>{row.timestamp?.slice(11, 23)}</span>
      <span style={DIMMED} className={WIDE_ONLY}>{row.partition}/{row.offset}</span>
      <span style={CELL} className={WIDE_ONLY}>{row.key ?? ""}</span>
      <span style={CELL}>{recordText(row).slice(0, PREVIEW_CHARACTERS)}</span>
    </button>
  );
});
