import { Stack, TagsInput, TextInput } from "@mantine/core";
import type { Dispatch } from "react";

import type { Change } from "./changes.ts";
import type { EditedDocument } from "./document.ts";
import { SinkList } from "./SinkList.tsx";
import { SourceSelect } from "./SourceSelect.tsx";
import { TransformList } from "./TransformList.tsx";
import type { KeyedTrial } from "./trial/use_trial.ts";

/** The configuration from its name to its sinks. */
export function Outline({ document, change, openKey, open, trial }: {
  document: EditedDocument;
  change: Dispatch<Change>;
  openKey: string | undefined;
  open: (key: string | undefined) => void;
  trial: KeyedTrial | undefined;
}) {
  const set = (members: Partial<Omit<EditedDocument, "transforms">>) =>
    change({ kind: "set", members });
  return (
    <Stack gap="sm">
      <TextInput
        label="Name"
        value={document.name}
        onChange={(event) => set({ name: event.currentTarget.value })}
      />
      <TagsInput label="Tags" size="xs" value={document.tags} onChange={(tags) => set({ tags })} />
      <SourceSelect source={document.source} select={(source) => set({ source })} />
      <TransformList
        transforms={document.transforms}
        change={change}
        openKey={openKey}
        open={open}
        trial={trial}
      />
      <SinkList sinks={document.sinks} set={(sinks) => set({ sinks })} />
    </Stack>
  );
}
