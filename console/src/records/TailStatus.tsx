import { Badge, Group, Text } from "@mantine/core";
import { CircleDot, CircleOff, LoaderCircle } from "lucide-react";

import { exact } from "../common/numbers.ts";
import type { TailState, TailView } from "./use_tail.ts";

const LOOKS: Record<TailState, [string, string, typeof CircleDot]> = {
  connecting: ["Connecting", "blue", LoaderCircle],
  open: ["Live", "green", CircleDot],
  hidden: ["Paused while hidden", "gray", CircleOff],
  ended: ["Ended", "gray", CircleOff],
  failed: ["Failed", "red", CircleOff],
};

/** Whether the tail is live, how many records it has shown, and how many it has not. */
export function TailStatus({ view }: { view: TailView }) {
  const [word, color, Icon] = LOOKS[view.state];
  return (
    <Group gap="xs" role="status">
      <Badge color={color} leftSection={<Icon size={12} />}>{word}</Badge>
      <Text size="xs" c="dimmed">
        {exact(view.rows.length)}{" "}
        shown{view.skipped > 0 && `, ${exact(view.skipped)} left out because they are too many`}
        {view.missed > 0 && `, about ${exact(view.missed)} missed without a connection`}
      </Text>
      {view.reason && <Text size="xs" c="dimmed">{view.reason}</Text>}
    </Group>
  );
}
