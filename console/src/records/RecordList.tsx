import "./record_list.css";

import { Box, Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { type CSSProperties, memo, type Ref, useLayoutEffect, useRef } from "react";

import { useVisibleRows } from "../common/use_visible_rows.ts";
import { recordText } from "./record_text.ts";
import type { Row } from "./tail_buffer.ts";

const ROW_HEIGHT = 28;
/** A lower bound for the width of a character: a cell gets no more text than it can show. */
const MIN_CHARACTER_PX = 6;
const KEY_PX = 170;
/** By how much the length of the text of records changes with the width of the list. */
const STEP_CHARACTERS = 20;
const WIDE_ONLY = "mantine-visible-from-sm";

/**
 * Shows records, the newest first. Only the visible rows are rendered. While the list is scrolled down, new records do
 * not move the visible rows. A narrow page hides the columns Position and Key.
 */
export function RecordList({ rows, selected, select, height }: {
  rows: Row[];
  selected: number | undefined;
  select: (row: Row) => void;
  height: string;
}) {
  const { ref, width } = useElementSize();
  const characters = Math.ceil((width || screen.width) / MIN_CHARACTER_PX / STEP_CHARACTERS) *
    STEP_CHARACTERS;
  const viewport = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const { first, end } = useVisibleRows(list, rows.length, ROW_HEIGHT);
  const newest = rows.at(-1)?.sequence ?? 0;
  const newestBefore = useRef(newest);
  useLayoutEffect(() => {
    const more = rows.length - 1 -
      rows.findLastIndex(({ sequence }) => sequence <= newestBefore.current);
    newestBefore.current = newest;
    const { current } = viewport;
    if (current && current.scrollTop > 0 && more > 0) current.scrollTop += more * ROW_HEIGHT;
  }, [rows, newest]);
  return (
    <div className="record-list" style={LIST}>
      <Head width={ref} />
      <div
        ref={viewport}
        className="viewport mantine-focus-auto"
        style={{ height }}
        tabIndex={0}
        role="region"
        aria-label="Records"
      >
        <div ref={list} className="rows" style={{ height: rows.length * ROW_HEIGHT }}>
          <div className="rendered" style={{ top: first * ROW_HEIGHT }}>
            {rows.slice(rows.length - end, rows.length - first).reverse().map((row) => (
              <RecordRow
                key={row.sequence}
                row={row}
                characters={characters}
                isSelected={row.sequence === selected}
                select={select}
              />
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}

const LIST = { "--row-height": `${ROW_HEIGHT}px`, "--key-width": `${KEY_PX}px` } as CSSProperties;

/** The names of the columns. `width` measures the column of the records. */
const Head = memo(function Head({ width }: { width: Ref<HTMLDivElement> }) {
  return (
    <Box className="head" px="xs" pb={4}>
      <Text size="xs" fw={600}>Time</Text>
      <Text size="xs" fw={600} visibleFrom="sm">Position</Text>
      <Text size="xs" fw={600} visibleFrom="sm">Key</Text>
      <Text ref={width} size="xs" fw={600}>Record</Text>
    </Box>
  );
});

/**
 * Shows one record with HTML elements and classes instead of components, because hundreds of rows are
 * rendered per second.
 */
const RecordRow = memo(function RecordRow({ row, characters, isSelected, select }: {
  row: Row;
  /** How many characters of the record are shown at most. */
  characters: number;
  isSelected: boolean;
  select: (row: Row) => void;
}) {
  return (
    <button
      type="button"
      className={`mantine-focus-auto record-row${isSelected ? " selected" : ""}`}
      onClick={() => select(row)}
    >
      <span className="dimmed">{row.timestamp?.slice(11, 23)}</span>
      <span className={`dimmed ${WIDE_ONLY}`}>{`${row.partition}/${row.offset}`}</span>
      <span className={WIDE_ONLY}>{row.key?.slice(0, Math.ceil(KEY_PX / MIN_CHARACTER_PX))}</span>
      <span>{recordText(row).slice(0, characters)}</span>
    </button>
  );
});
