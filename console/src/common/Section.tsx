import { Group, Stack, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** A part of a page with a title, and with what belongs to its right end. */
export function Section(
  { title, right, children }: { title: string; right?: ReactNode; children: ReactNode },
) {
  return (
    <Stack gap="xs" component="section" aria-label={title}>
      <Group justify="space-between" mih={30}>
        <Title order={2}>{title}</Title>
        {right}
      </Group>
      {children}
    </Stack>
  );
}
