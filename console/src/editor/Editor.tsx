import { Grid, Stack } from "@mantine/core";
import { useBlocker, useSearch } from "@tanstack/react-router";
import type { Flow } from "headwater-client";
import { useMemo, useReducer, useState } from "react";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { useItem } from "../pipeline/use_pipeline.ts";
import { changed } from "./changes.ts";
import { bodyOf, documentOf } from "./document.ts";
import { Outline } from "./Outline.tsx";
import { SaveBar } from "./SaveBar.tsx";
import { TransformEditor } from "./TransformEditor.tsx";
import { problemsOf } from "./trial/problems.ts";
import { TrialColumn } from "./trial/TrialColumn.tsx";
import { useTrial } from "./trial/use_trial.ts";
import { useSave } from "./use_save.ts";

/** Source, transforms and sinks on the left; the open transform; and the stream's last records through all of it. */
export default function Editor({ flow }: { flow: Flow }) {
  const [base, setBase] = useState(flow);
  const [document, change] = useReducer(changed, base, documentOf);
  const search = useSearch({ from: "/pipelines/$id/edit" });
  const [openKey, open] = useState(() => search.transform ?? document.transforms[0]?.key);
  const { data: item } = useItem(flow.id);
  const isDeployed = item?.state === "deployed" || item?.state === "failing" ||
    item?.state === "paused";
  const trial = useTrial(base, document, isDeployed, search);
  const save = useSave(base, document, (saved) => {
    setBase(saved);
    const stored = documentOf(saved);
    const index = document.transforms.findIndex(({ key }) => key === openKey);
    change({ kind: "reset", document: stored });
    open(stored.transforms[index]?.key);
  });
  const isChanged = useMemo(
    () => JSON.stringify(bodyOf(base, document)) !== JSON.stringify(bodyOf(base, documentOf(base))),
    [base, document],
  );
  useBlocker({
    shouldBlockFn: () => isChanged && !confirm("Leave without saving the changes?"),
    enableBeforeUnload: isChanged,
  });
  const index = document.transforms.findIndex(({ key }) => key === openKey);
  const edited = document.transforms[index];
  return (
    <Stack gap="sm">
      <SaveBar
        flow={base}
        isChanged={isChanged}
        save={save}
        discard={() => change({ kind: "reset", document: documentOf(base) })}
      />
      {save.error && <ErrorNotice error={save.error} />}
      <Grid gap="md">
        <Grid.Col span={{ base: 12, sm: 4, lg: 2.5 }}>
          <Outline
            document={document}
            change={change}
            openKey={openKey}
            open={open}
            trial={trial.data}
          />
        </Grid.Col>
        <Grid.Col span={{ base: 12, sm: 8, lg: 5 }}>
          {edited && (
            <TransformEditor
              key={edited.key}
              edited={edited}
              index={index}
              configId={base.id}
              change={change}
              example={trial.data?.records?.find(({ input }) => input)?.input?.record}
              problems={problemsOf(trial, document, edited.key)}
            />
          )}
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 4.5 }}>
          <TrialColumn
            trial={trial}
            document={document}
            isDeployed={isDeployed}
            title={search.error ? `Letters with ${search.error}` : "Last records"}
          />
        </Grid.Col>
      </Grid>
    </Stack>
  );
}
