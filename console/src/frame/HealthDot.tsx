import { Box, Group, Text, Tooltip } from "@mantine/core";

import { textOf } from "../common/errors.ts";
import { useReadiness } from "./use_readiness.ts";

/** The health of the installation in one dot; its words are shown on hover. */
export function HealthDot() {
  const { error, isPending, unavailable } = useReadiness();
  const [color, word] = error
    ? ["red", unavailable ? "Degraded" : "Unreachable"]
    : isPending
    ? ["gray", ""]
    : ["green", "Ready"];
  const sentence = error ? textOf(error) : "All services of this installation are available.";
  return (
    <Tooltip label={sentence} multiline maw={360}>
      <Group gap={6} wrap="nowrap" role="status" tabIndex={0} aria-label={`${word}. ${sentence}`}>
        <Box w={8} h={8} bg={`${color}.6`} bdrs="xl" />
        <Text size="xs" c="dimmed" visibleFrom="sm">{word}</Text>
      </Group>
    </Tooltip>
  );
}
