import { Code, Group, Stack, Title } from "@mantine/core";
import { useParams } from "@tanstack/react-router";
import { useMemo } from "react";

import { Empty } from "../common/Empty.tsx";
import { filterSource } from "../values/value_source.ts";
import { ValuesPanel } from "../values/ValuesPanel.tsx";
import { nameOf } from "./deadletters/names.ts";
import { usePipeline } from "./pipeline_context.ts";

/** The set of one filter. */
export function FilterTab() {
  const flow = usePipeline();
  const { uid } = useParams({ from: "/pipelines/$id/filters/$uid" });
  const transform = flow.pipeline.transforms?.find((each) => each.uid === uid);
  const isFilter = transform?.type === "redis_set_filter";
  const source = useMemo(() => isFilter ? filterSource(flow.id, flow.filter(uid)) : undefined, [
    flow.id,
    uid,
    isFilter,
  ]);
  if (!isFilter || !source) {
    return <Empty title="There is no such filter">The saved revision does not have it.</Empty>;
  }
  return (
    <Stack gap="sm">
      <Group gap="sm">
        <Title order={2}>{nameOf(flow, uid)}</Title>
        <Code>{transform.filter_expr}</Code>
      </Group>
      <ValuesPanel source={source} />
    </Stack>
  );
}
