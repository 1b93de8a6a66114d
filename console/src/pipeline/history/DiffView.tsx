import { Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Flow } from "headwater-client";

import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { nameOf } from "../deadletters/names.ts";
import { UnifiedDiff } from "../../common/UnifiedDiff.tsx";

/** What a revision has changed: the configuration, and each script. */
export function DiffView(
  { flow, revision, hasBefore }: { flow: Flow; revision: number; hasBefore: boolean },
) {
  const { data: diff, error } = useQuery({
    queryKey: ["pipeline", flow.id, "diff", revision],
    queryFn: ({ signal }) => flow.diff(revision, { signal }),
    enabled: hasBefore,
    staleTime: Infinity,
  });
  if (!hasBefore) return <Text size="sm" c="dimmed">No earlier revision is kept.</Text>;
  if (!diff) return error && <ErrorNotice error={error} />;
  return (
    <Stack gap="sm">
      {Object.entries(diff.scripts).map(([uid, text]) => (
        <UnifiedDiff key={uid} title={nameOf(flow, uid)} text={text} />
      ))}
      {diff.diff && <UnifiedDiff title="Configuration" text={diff.diff} />}
      {!diff.diff && Object.keys(diff.scripts).length === 0 && (
        <Text size="sm" c="dimmed">Nothing differs.</Text>
      )}
    </Stack>
  );
}
