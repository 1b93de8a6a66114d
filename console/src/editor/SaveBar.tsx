import { Badge, Button, Group, Kbd, Text } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import type { Flow } from "headwater-client";
import { Rocket, Save } from "lucide-react";

import { MOD_KEY } from "../common/mod_key.ts";
import type { useSave } from "./use_save.ts";

/** What is unsaved, and the ways to save it. */
export function SaveBar({ flow, isChanged, save, discard }: {
  flow: Flow;
  isChanged: boolean;
  save: ReturnType<typeof useSave>;
  discard: () => void;
}) {
  const start = (deploy: boolean) => () => {
    if (!save.isPending && (isChanged || deploy)) save.mutate({ deploy, isChanged });
  };
  useHotkeys([["mod+S", start(false)], ["mod+shift+Enter", start(true)]], [], true);
  const isDeploying = save.isPending && save.variables.deploy;
  return (
    <Group gap="sm">
      <Text size="sm" c="dimmed">Revision {flow.revision}</Text>
      {isChanged && <Badge color="yellow">unsaved changes</Badge>}
      <Group gap="xs" ml="auto">
        {isChanged && <Button variant="subtle" color="gray" onClick={discard}>Discard</Button>}
        <Button
          variant="default"
          leftSection={<Save size={14} />}
          rightSection={<Kbd size="xs">{MOD_KEY}S</Kbd>}
          disabled={!isChanged}
          loading={save.isPending && !isDeploying}
          onClick={start(false)}
        >
          Save
        </Button>
        <Button leftSection={<Rocket size={14} />} loading={isDeploying} onClick={start(true)}>
          Save and deploy
        </Button>
      </Group>
    </Group>
  );
}
