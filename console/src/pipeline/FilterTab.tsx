import { Code, Group, Stack, Title } from "@mantine/core";
import { useParams } from "@tanstack/react-router";
import type { Deployment, Flow } from "headwater-client";
import { useMemo } from "react";

import { Empty } from "../common/Empty.tsx";
import { filterSource } from "../values/value_source.ts";
import { ValuesPanel } from "../values/ValuesPanel.tsx";
import { nameOf } from "./deadletters/names.ts";
import { usePipeline } from "./pipeline_context.ts";
import { useDeployment } from "./use_pipeline.ts";

/** The set of one filter. */
export function FilterTab() {
  const flow = usePipeline();
  const { uid } = useParams({ from: "/pipelines/$id/filters/$uid" });
  const transform = flow.pipeline.transforms?.find((each) => each.uid === uid);
  const { data: deployment } = useDeployment(flow);
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
      <ValuesPanel key={source.key.join(":")} source={source} note={noteOf(flow, deployment)} />
    </Stack>
  );
}

/** Says when changes of the values take effect; undefined when they do at once. */
function noteOf(flow: Flow, deployment: Deployment | null | undefined): string | undefined {
  if (deployment === null) return "The pipeline is not deployed. It uses these values when it is.";
  const running = deployment?.revision;
  if (!running || running === flow.revision) return undefined;
  return `Revision ${running} runs, and revision ${flow.revision} is saved. Changes are in force at once if the running one has this filter.`;
}
