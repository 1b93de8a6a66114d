import { Grid, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { exact } from "../common/numbers.ts";
import { BrowseValues } from "./BrowseValues.tsx";
import { OneValue } from "./OneValue.tsx";
import { ManyValues } from "./ManyValues.tsx";
import { UploadFile } from "./UploadFile.tsx";
import type { ValueSource } from "./value_source.ts";

/** Everything that can be done with a set of values. `note` says when changes take effect. */
export function ValuesPanel({ source, note = "Changes are in force at once, without a deploy." }: {
  source: ValueSource;
  note?: string;
}) {
  const { data: count, error } = useQuery({
    queryKey: [...source.key, "count"],
    queryFn: ({ signal }) => source.count(signal),
    refetchInterval: 10_000,
  });
  return (
    <Stack gap="md">
      <Group gap="xs" role="status">
        {count !== undefined && (
          <Text size="sm">{exact(count)} {count === 1 ? "value" : "values"}</Text>
        )}
        <Text size="sm" c="dimmed">{note}</Text>
      </Group>
      {error && <ErrorNotice error={error} />}
      <Grid gap="xl">
        <Grid.Col span={{ base: 12, md: 6 }}>
          <Stack gap="lg">
            <OneValue source={source} />
            <ManyValues source={source} />
            <UploadFile source={source} />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 6 }}>
          <BrowseValues source={source} />
        </Grid.Col>
      </Grid>
    </Stack>
  );
}
