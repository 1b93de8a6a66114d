import { Group, Loader, Text } from "@mantine/core";
import type { OverviewItem } from "headwater-client";
import { CircleAlert, CircleCheck } from "lucide-react";

import { textOf } from "../../common/errors.ts";
import { StateBadge } from "../../common/StateBadge.tsx";
import { lookOf } from "../state.ts";
import type { Progress } from "./use_bulk.ts";

/** The state of a pipeline before the action, then how far the action is, or why it failed. */
export function Result({ progress, done, item }: {
  progress: Progress | undefined;
  done: string;
  item: OverviewItem;
}) {
  if (progress === undefined) return <StateBadge look={lookOf(item)} />;
  if (progress instanceof Error) {
    return (
      <Group gap={6} wrap="nowrap" align="flex-start" c="var(--mantine-color-red-text)">
        <CircleAlert size={14} style={{ flex: "none", marginTop: 3 }} />
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>{textOf(progress)}</Text>
      </Group>
    );
  }
  if (progress === "done") {
    return (
      <Group gap={6} c="var(--mantine-color-green-text)">
        <CircleCheck size={14} />
        <Text size="sm">{done}</Text>
      </Group>
    );
  }
  if (progress === "runs") {
    return <Loader size="xs" aria-label="In progress" />;
  }
  return <Text size="sm" c="dimmed">{progress === "waits" ? "Waits" : "Not started"}</Text>;
}
