import { Box, Group, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { RequestFailed } from "headwater-client";

import { useHeadwater } from "../app/session.tsx";

const EVERY_MS = 10_000;

/** The health of the installation in one dot; its words are shown on hover. */
export function HealthDot() {
  const hw = useHeadwater();
  const { error, isPending } = useQuery({
    queryKey: ["readiness"],
    queryFn: ({ signal }) => hw.readiness({ signal, timeoutMs: 5_000 }),
    refetchInterval: EVERY_MS,
    retry: false,
  });
  const [color, word] = error
    ? ["red", error instanceof RequestFailed ? "Degraded" : "Unreachable"]
    : isPending
    ? ["gray", ""]
    : ["green", "Ready"];
  const sentence = error ? error.message : "All services of this installation are available.";
  return (
    <Tooltip label={sentence} multiline maw={360}>
      <Group gap={6} wrap="nowrap" role="status" tabIndex={0} aria-label={`${word}. ${sentence}`}>
        <Box w={8} h={8} bg={`${color}.6`} bdrs="xl" />
        <Text size="xs" c="dimmed" visibleFrom="sm">{word}</Text>
      </Group>
    </Tooltip>
  );
}
