import { Stack } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { Outlet, useParams } from "@tanstack/react-router";
import { NotFound } from "headwater-client";

import { Empty } from "../common/Empty.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { Rows } from "../common/Rows.tsx";
import { useDelayed } from "../common/use_delayed.ts";
import { PipelineContext } from "./pipeline_context.ts";
import { PipelineHead } from "./PipelineHead.tsx";
import { PipelineTabs } from "./PipelineTabs.tsx";
import { useFlow } from "./use_pipeline.ts";

/** One pipeline: its head, its tabs, and the tab that is open. */
export function PipelinePage() {
  const { id } = useParams({ from: "/pipelines/$id" });
  const { data: flow, error, isPending, refetch } = useFlow(id);
  const isSlow = useDelayed(isPending);
  useDocumentTitle(`${flow?.name ?? "Pipeline"} – Headwater`);
  if (error instanceof NotFound) {
    return (
      <Empty title="This pipeline does not exist">
        It was deleted, or belongs to another owner.
      </Empty>
    );
  }
  if (!flow) {
    return error
      ? <ErrorNotice error={error} retry={() => refetch()} />
      : isSlow
      ? <Rows count={10} />
      : null;
  }
  return (
    <PipelineContext value={flow}>
      <Stack gap="sm">
        <PipelineHead flow={flow} />
        <PipelineTabs id={id} />
        <Outlet />
      </Stack>
    </PipelineContext>
  );
}
