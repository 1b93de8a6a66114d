import { Group, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { Empty } from "../common/Empty.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { Rows } from "../common/Rows.tsx";
import { Stale } from "../common/Stale.tsx";
import { useDelayed } from "../common/use_delayed.ts";
import { BulkBar } from "./bulk/BulkBar.tsx";
import { EmptyPipelines } from "./EmptyPipelines.tsx";
import { FilterChips } from "./FilterChips.tsx";
import { NewPipeline } from "./NewPipeline.tsx";
import { PipelineTable } from "./PipelineTable.tsx";
import { MOST_ITEMS, useOverview } from "./use_overview.ts";

/** Is everything fine? The list shows first what is not. */
export function PipelinesPage() {
  const search = useSearch({ from: "/pipelines" });
  const { data, error, isPending, refetch, dataUpdatedAt } = useOverview(search);
  const isSlow = useDelayed(isPending);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  useDocumentTitle("Pipelines – Headwater");
  const isFiltered = Boolean(search.q || search.tag || search.state);
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Group gap="sm">
          <Title order={1}>Pipelines</Title>
          {data && <Stale error={error} updatedAt={dataUpdatedAt} />}
        </Group>
        <Group gap="sm">
          <FilterChips search={search} />
          <NewPipeline />
        </Group>
      </Group>
      {isSlow && <Rows />}
      {error && !data && <ErrorNotice error={error} retry={() => refetch()} />}
      {data && data.items.length > 0 && (
        <PipelineTable
          items={data.items}
          search={search}
          selected={selected}
          setSelected={setSelected}
        />
      )}
      {data && (
        <BulkBar
          items={data.items.filter(({ id }) => selected.has(id))}
          select={setSelected}
        />
      )}
      {data && data.items.length === 0 && isFiltered && (
        <Empty title="No pipeline matches">Change the name, the state or the tag.</Empty>
      )}
      {data && data.items.length === 0 && !isFiltered && <EmptyPipelines />}
      {data?.isCut && (
        <Text size="sm" c="dimmed">
          Only {MOST_ITEMS} pipelines are shown. Narrow the list by a name, a state or a tag.
        </Text>
      )}
    </Stack>
  );
}
