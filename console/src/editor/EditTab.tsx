import { Skeleton } from "@mantine/core";
import { lazy, Suspense } from "react";

import { usePipeline } from "../pipeline/pipeline_context.ts";

const Editor = lazy(() => import("./Editor.tsx"));

/** Loads the editor, which has the largest libraries of the console, when it is opened. */
export function EditTab() {
  const flow = usePipeline();
  return (
    <Suspense fallback={<Skeleton height={480} />}>
      <Editor key={flow.id} flow={flow} />
    </Suspense>
  );
}
