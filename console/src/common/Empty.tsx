import { Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** What a page shows when there is nothing yet: what would be here, and how to get it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Stack align="center" gap="xs" py={48} px="md" ta="center">
      <Title order={2}>{title}</Title>
      <Text component="div" size="sm" c="dimmed" maw={520}>{children}</Text>
    </Stack>
  );
}
