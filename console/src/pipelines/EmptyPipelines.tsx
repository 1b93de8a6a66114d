import { Button, Card, SimpleGrid, Stack, Text, Title } from "@mantine/core";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { TEMPLATES } from "./templates.ts";
import { useCreate } from "./use_create.ts";

/** The first pipeline is one click away: each template becomes a draft, which opens. */
export function EmptyPipelines() {
  const create = useCreate();
  return (
    <Stack py="xl" gap="md" maw={960}>
      <Stack gap={4}>
        <Title order={2}>No pipelines yet</Title>
        <Text size="sm" c="dimmed">
          A pipeline reads a stream, keeps and changes its records, and writes them to topics of
          your own. Begin with one of these: it becomes a draft that you can change before anything
          runs.
        </Text>
      </Stack>
      <SimpleGrid cols={{ base: 1, sm: 3 }}>
        {TEMPLATES.map((template) => (
          <Card key={template.title} withBorder padding="md">
            <Stack gap="sm" h="100%" justify="space-between">
              <Stack gap={4}>
                <Title order={3} size="sm">{template.title}</Title>
                <Text size="sm" c="dimmed">{template.text}</Text>
              </Stack>
              <Button
                variant="light"
                loading={create.isPending && create.variables === template}
                onClick={() => create.mutate(template)}
              >
                Begin with this
              </Button>
            </Stack>
          </Card>
        ))}
      </SimpleGrid>
      {create.error && <ErrorNotice error={create.error} />}
    </Stack>
  );
}
