import { Skeleton } from "@mantine/core";
import { Suspense } from "react";

import { lazyPart } from "../common/lazy_part.ts";
import { usePipeline } from "../pipeline/pipeline_context.ts";

const Editor = lazyPart(() => import("./Editor.tsx"));

/** Loads the editor, which has the largest libraries of the console, when it is opened. */
export function EditTab() {
  const flow = usePipeline();
  return (
    <Suspense fallback={<Skeleton height={480} />}>
      <Editor key={flow.id} flow={flow} />
    </Suspense>
  );
}
