import { Badge, Code, Group, ScrollArea, Stack, Text } from "@mantine/core";
import type { Flow, LogLine } from "headwater-client";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { Section } from "../common/Section.tsx";
import { useDeployed } from "./use_pipeline.ts";

const COLORS: Record<string, string> = { error: "red", critical: "red", warning: "yellow" };

/** The lines of the workers and of `console.log`, newest first. */
export function Logs({ flow, worker, limit, height = 240 }: {
  flow: Flow;
  worker?: string | undefined;
  limit: number;
  height?: number | string;
}) {
  const { data: lines, error } = useDeployed(
    flow,
    ["logs", limit],
    (each, signal) => each.logs({ limit, signal }),
  );
  const shown = lines?.filter((line) => worker === undefined || line.worker === worker);
  return (
    <Section title={worker ? `Log of ${worker}` : "Log"}>
      {error && !lines && <ErrorNotice error={error} />}
      {shown?.length === 0 && (
        <Text size="sm" c="dimmed">
          No lines: no worker had to report anything, and no script has called console.log.
        </Text>
      )}
      {shown && shown.length > 0 && (
        <ScrollArea.Autosize mah={height} viewportProps={{ tabIndex: 0 }}>
          <Stack gap={2}>
            {shown.map((line, index) => <Line key={`${line.time}${index}`} line={line} />)}
          </Stack>
        </ScrollArea.Autosize>
      )}
    </Section>
  );
}

function Line({ line }: { line: LogLine }) {
  return (
    <Group gap="xs" wrap="nowrap" align="flex-start">
      <Text size="xs" c="dimmed" ff="monospace" title={line.time}>{line.time.slice(11, 19)}</Text>
      <Badge
        size="xs"
        color={line.source === "script" ? "water" : COLORS[line.level] ?? "gray"}
        miw={56}
      >
        {line.source === "script" ? "script" : line.level}
      </Badge>
      <Code fz="xs" bg="transparent" p={0} style={{ overflowWrap: "anywhere" }}>
        {line.message}
      </Code>
    </Group>
  );
}
