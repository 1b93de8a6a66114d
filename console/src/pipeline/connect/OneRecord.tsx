import { Button, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { Flow } from "headwater-client";

import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { JsonView } from "../../common/JsonView.tsx";
import { recordValue } from "../../records/record_text.ts";

/** Reads the newest record of an output, as a proof that there is one. */
export function OneRecord({ flow, sink }: { flow: Flow; sink: string }) {
  const read = useMutation({
    mutationFn: async () => (await flow.records(sink, { limit: 1 }))[0] ?? null,
  });
  return (
    <Stack gap="xs">
      <Button
        variant="default"
        w="fit-content"
        loading={read.isPending}
        onClick={() => read.mutate()}
      >
        Read one record now
      </Button>
      {read.error && <ErrorNotice error={read.error} />}
      {read.data === null && <Text size="sm" c="dimmed">The topic has no record yet.</Text>}
      {read.data && <JsonView value={recordValue(read.data)} />}
    </Stack>
  );
}
