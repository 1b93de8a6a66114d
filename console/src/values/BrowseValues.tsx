import { Box, Button, Group, ScrollArea, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { exact } from "../common/numbers.ts";
import type { ValueSource } from "./value_source.ts";

const ROW_HEIGHT = 24;
const HEIGHT = "calc(100dvh - 300px)";

/** The values in pages of 1,000; only the ones in sight are drawn. */
export function BrowseValues({ source }: { source: ValueSource }) {
  const viewport = useRef<HTMLDivElement>(null);
  const { data, error, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery({
    queryKey: [...source.key, "page"],
    queryFn: ({ pageParam, signal }) => source.page(pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: ({ cursor }) => cursor,
  });
  const values = data?.pages.flatMap((page) => page.values) ?? [];
  const list = useVirtualizer({
    count: values.length,
    getScrollElement: () => viewport.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 20,
  });
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
        viewportRef={viewport}
        viewportProps={{ tabIndex: 0, "aria-label": "Values" }}
      >
        <Box pos="relative" h={list.getTotalSize()}>
          {list.getVirtualItems().map(({ key, index, start }) => (
            <Text
              key={key}
              ff="monospace"
              fz="xs"
              pos="absolute"
              h={ROW_HEIGHT}
              style={{ transform: `translateY(${start}px)` }}
            >
              {values[index]}
            </Text>
          ))}
        </Box>
      </ScrollArea.Autosize>
    </Stack>
  );
}
