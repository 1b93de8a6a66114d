import { Box, ScrollArea, Text, UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useRef } from "react";

import { recordText } from "./record_text.ts";
import type { Row } from "./use_tail.ts";

const ROW_HEIGHT = 28;
const OVERSCAN = 12;
const PREVIEW_CHARACTERS = 400;
const COLUMNS = "96px 90px 170px 1fr";

/** Records, the newest first; only the rows in sight are drawn. */
export function RecordList({ rows, selected, select, height }: {
  rows: Row[];
  selected: number | undefined;
  select: (row: Row) => void;
  height: string;
}) {
  const viewport = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => viewport.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
    getItemKey: (index) => rows[rows.length - 1 - index]!.row,
  });
  return (
    <Box>
      <Box display="grid" px="xs" pb={4} style={{ gridTemplateColumns: COLUMNS, gap: 8 }}>
        {["Time", "Position", "Key", "Record"].map((head) => (
          <Text key={head} size="xs" fw={600}>{head}</Text>
        ))}
      </Box>
      <ScrollArea
        h={height}
        viewportRef={viewport}
        viewportProps={{ tabIndex: 0, "aria-label": "Records" }}
      >
        <Box pos="relative" h={list.getTotalSize()}>
          {list.getVirtualItems().map(({ key, index, start }) => {
            const row = rows[rows.length - 1 - index]!;
            return (
              <RecordRow
                key={key}
                row={row}
                top={start}
                isSelected={row.row === selected}
                select={select}
              />
            );
          })}
        </Box>
      </ScrollArea>
    </Box>
  );
}

const RecordRow = memo(function RecordRow({ row, top, isSelected, select }: {
  row: Row;
  top: number;
  isSelected: boolean;
  select: (row: Row) => void;
}) {
  return (
    <UnstyledButton
      pos="absolute"
      left={0}
      right={0}
      h={ROW_HEIGHT}
      px="xs"
      ff="monospace"
      fz="xs"
      display="grid"
      bg={isSelected ? "var(--mantine-primary-color-light)" : ""}
      style={{
        transform: `translateY(${top}px)`,
        gridTemplateColumns: COLUMNS,
        gap: 8,
        alignItems: "center",
      }}
      onClick={() => select(row)}
    >
      <Text inherit c="dimmed">{row.timestamp?.slice(11, 23)}</Text>
      <Text inherit c="dimmed">{row.partition}/{row.offset}</Text>
      <Text inherit truncate>{row.key ?? ""}</Text>
      <Text inherit truncate>{recordText(row).slice(0, PREVIEW_CHARACTERS)}</Text>
    </UnstyledButton>
  );
});
