import { Button, Group, Input, Stack, Text } from "@mantine/core";
import type { NewTransform } from "headwater-client";
import { Plus } from "lucide-react";
import type { Dispatch } from "react";

import type { Change } from "./changes.ts";
import type { EditedTransform } from "./document.ts";
import { TransformItem } from "./TransformItem.tsx";
import type { KeyedTrial } from "./trial/use_trial.ts";

/** The transforms in their order: open, move, switch off for the trial, remove, add. */
export function TransformList({ transforms, change, openKey, open, trial }: {
  transforms: EditedTransform[];
  change: Dispatch<Change>;
  openKey: string | undefined;
  open: (key: string | undefined) => void;
  trial: KeyedTrial | undefined;
}) {
  const add = (type: NewTransform["type"]) => {
    const key = crypto.randomUUID();
    change({ kind: "add", key, type });
    open(key);
  };
  return (
    <Stack gap={4}>
      <Input.Label size="xs">Transforms</Input.Label>
      {transforms.length === 0 && (
        <Text size="xs" c="dimmed">None: every record goes to the sinks as it is.</Text>
      )}
      {transforms.map((edited, index) => (
        <TransformItem
          key={edited.key}
          edited={edited}
          index={index}
          isLast={index === transforms.length - 1}
          isOpen={edited.key === openKey}
          open={() => open(edited.key)}
          change={change}
          totals={trial?.summary?.transforms[trial.transformKeys.indexOf(edited.key)]}
        />
      ))}
      <Group gap="xs" mt={4}>
        <Button
          variant="default"
          size="compact-xs"
          leftSection={<Plus size={12} />}
          onClick={() => add("redis_set_filter")}
        >
          Filter
        </Button>
        <Button
          variant="default"
          size="compact-xs"
          leftSection={<Plus size={12} />}
          onClick={() => add("v8")}
        >
          Script
        </Button>
      </Group>
    </Stack>
  );
}
