import { Box, Button, Group, ScrollArea, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { exact } from "../common/numbers.ts";
import { useVisibleRows } from "../common/use_visible_rows.ts";
import type { ValueSource } from "./value_source.ts";

const ROW_HEIGHT = 24;
const HEIGHT = "calc(100dvh - 300px)";

/** Lists the values in pages of 1,000. Only the visible rows are rendered. */
export function BrowseValues({ source }: { source: ValueSource }) {
  const list = useRef<HTMLDivElement>(null);
  const { data, error, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery({
    queryKey: [...source.key, "page"],
    queryFn: ({ pageParam, signal }) => source.page(pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: ({ cursor }) => cursor,
  });
  const values = useMemo(() => data?.pages.flatMap((page) => page.values) ?? [], [data]);
  const { first, end } = useVisibleRows(list, values.length, ROW_HEIGHT);
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text size="sm" fw={600}>Values</Text>
        <Group gap="xs">
          <Text size="xs" c="dimmed">{exact(values.length)} shown</Text>
          {hasNextPage && (
            <Button
              variant="default"
              loading={isFetching}
              onClick={() => fetchNextPage()}
            >
              1,000 more
            </Button>
          )}
        </Group>
      </Group>
      {error && <ErrorNotice error={error} />}
      {data && values.length === 0 && <Text size="sm" c="dimmed">The set is empty.</Text>}
      <ScrollArea.Autosize
        mah={HEIGHT}
        viewportProps={{ tabIndex: 0, "aria-label": "Values" }}
      >
        <Box ref={list} pt={first * ROW_HEIGHT} h={values.length * ROW_HEIGHT}>
          {values.slice(first, end).map((value) => (
            <Text key={value} ff="monospace" fz="xs" h={ROW_HEIGHT}>{value}</Text>
          ))}
        </Box>
      </ScrollArea.Autosize>
    </Stack>
  );
}
