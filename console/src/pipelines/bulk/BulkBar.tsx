import { Affix, Button, CloseButton, Group, Paper, Text } from "@mantine/core";
import type { OverviewItem } from "headwater-client";
import { useState } from "react";

import { BULK_ACTIONS, type BulkAction } from "./actions.ts";
import { BulkModal } from "./BulkModal.tsx";

/** What can be done with the selected pipelines. */
export function BulkBar({ items, select }: {
  items: OverviewItem[];
  select: (ids: ReadonlySet<string>) => void;
}) {
  const [open, setOpen] = useState<{ action: BulkAction; items: OverviewItem[] }>();
  return (
    <>
      {items.length > 0 && (
        <Affix position={{ bottom: 16, left: 16, right: 16 }} style={{ pointerEvents: "none" }}>
          <Paper
            withBorder
            shadow="md"
            px="md"
            py="xs"
            w="fit-content"
            mx="auto"
            role="toolbar"
            aria-label="Selected pipelines"
            style={{ pointerEvents: "auto" }}
          >
            <Group gap="xs">
              <Text size="sm" fw={600}>{items.length} selected</Text>
              {BULK_ACTIONS.map((action) => (
                <Button
                  key={action.word}
                  variant="default"
                  leftSection={<action.Icon size={14} />}
                  onClick={() => setOpen({ action, items })}
                >
                  {action.word}
                </Button>
              ))}
              <CloseButton
                size="sm"
                aria-label="Select none"
                onClick={() =>
                  select(new Set())}
              />
            </Group>
          </Paper>
        </Affix>
      )}
      {open && (
        <BulkModal
          {...open}
          close={(notDone) => {
            setOpen(undefined);
            select(new Set(notDone));
          }}
        />
      )}
    </>
  );
}
