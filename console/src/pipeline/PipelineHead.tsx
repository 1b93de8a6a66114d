import { Alert, Badge, Group, Stack, Text, Title } from "@mantine/core";
import type { Deployment, Flow } from "headwater-client";

import { CopyText } from "../common/CopyText.tsx";
import { StateBadge } from "../common/StateBadge.tsx";
import { lookOf } from "../pipelines/state.ts";
import { PipelineActions } from "./PipelineActions.tsx";
import { useDeployment, useItem } from "./use_pipeline.ts";

/** What the pipeline is, whether it is well and why not, and what can be done with it. */
export function PipelineHead({ flow }: { flow: Flow }) {
  const { data: item } = useItem(flow.id);
  const { data: deployment } = useDeployment(flow);
  const look = item && lookOf(item);
  const sentence = deployment && sentenceOf(deployment);
  return (
    <Stack gap="xs">
      <Group justify="space-between" align="flex-start">
        <Stack gap={4}>
          <Group gap="sm">
            <Title order={1}>{flow.name}</Title>
            {look && <StateBadge look={look} />}
            {flow.config.tags.map((tag) => <Badge key={tag} color="gray">{tag}</Badge>)}
          </Group>
          <Group gap="xs">
            <Text size="xs" c="dimmed">{revisionsOf(flow, deployment)}</Text>
            <CopyText text={flow.id} />
          </Group>
        </Stack>
        <PipelineActions flow={flow} state={item?.state} deployment={deployment} />
      </Group>
      {flow.config.description && <Text size="sm">{flow.config.description}</Text>}
      {flow.config.unreadable && (
        <Alert color="red" title="This version can't read the configuration">
          {flow.config.unreadable}
        </Alert>
      )}
      {sentence && (
        <Alert color={deployment.condition === "RolledBack" ? "yellow" : "red"} title={sentence}>
          {deployment.reason}
        </Alert>
      )}
    </Stack>
  );
}

function revisionsOf(flow: Flow, deployment: Deployment | null | undefined): string {
  const running = deployment?.revision;
  if (!running || running === flow.revision) return `Revision ${flow.revision}`;
  return `Revision ${running} runs, revision ${flow.revision} is saved`;
}

function sentenceOf({ condition, revision, desired_revision }: Deployment): string | undefined {
  if (condition === "RolledBack") {
    return `Revision ${desired_revision} was rolled back${revision ? ` to ${revision}` : ""}`;
  }
  return condition === "Failed" ? `Revision ${desired_revision} could not be deployed` : undefined;
}
