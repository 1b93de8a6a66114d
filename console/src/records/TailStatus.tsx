import { Badge, Group, Text } from "@mantine/core";
import { CircleDot, CircleOff, LoaderCircle } from "lucide-react";

import { exact } from "../common/numbers.ts";
import type { TailBuffer } from "./tail_buffer.ts";
import { type Tail, type TailState, useTailChanges } from "./use_tail.ts";

const LOOKS: Record<TailState, [string, string, typeof CircleDot]> = {
  connecting: ["Connecting", "blue", LoaderCircle],
  open: ["Live", "green", CircleDot],
  hidden: ["Paused while hidden", "gray", CircleOff],
  ended: ["Ended", "gray", CircleOff],
  failed: ["Failed", "red", CircleOff],
};

const PAUSED: [string, string, typeof CircleDot] = ["Paused", "gray", CircleOff];

/** Shows whether the tail is live, and how many records it has kept, skipped and missed. */
export function TailStatus({ tail, isPaused }: { tail: Tail; isPaused: boolean }) {
  const [word, color, Icon] = isPaused && tail.state === "open" ? PAUSED : LOOKS[tail.state];
  return (
    <Group gap="xs" role="status">
      <Badge color={color} leftSection={<Icon size={12} />}>{word}</Badge>
      <Text size="xs" c="dimmed">
        <Counts buffer={tail.buffer} />
      </Text>
      {tail.reason && <Text size="xs" c="dimmed">{tail.reason}</Text>}
    </Group>
  );
}

function Counts({ buffer }: { buffer: TailBuffer }) {
  useTailChanges(buffer);
  return (
    <>
      {exact(buffer.rows.length)} records
      {buffer.skipped > 0 &&
        `, ${exact(buffer.skipped)} skipped, since more arrived than a tail sends`}
      {buffer.missed > 0 && `, about ${exact(buffer.missed)} missed without a connection`}
    </>
  );
}
