import { Grid, Stack } from "@mantine/core";
import { useState } from "react";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { Logs } from "./Logs.tsx";
import { usePipeline } from "./pipeline_context.ts";
import { Picture } from "./picture/Picture.tsx";
import { Plots } from "./plots/Plots.tsx";
import { useItem } from "./use_pipeline.ts";
import { Workers } from "./Workers.tsx";

/** What the pipeline does right now. */
export function OverviewTab() {
  const flow = usePipeline();
  const { data: item, error } = useItem(flow.id);
  const [worker, setWorker] = useState<string>();
  const isDeployed = item !== undefined && item !== null && item.state !== "draft" &&
    item.state !== "unreadable";
  return (
    <Stack gap="lg">
      <Picture flow={flow} isDeployed={isDeployed} />
      {error && !item && <ErrorNotice error={error} />}
      {isDeployed && (
        <>
          <Plots flow={flow} />
          <Grid>
            <Grid.Col span={{ base: 12, md: 6 }}>
              <Workers flow={flow} selected={worker} select={setWorker} />
            </Grid.Col>
            <Grid.Col span={{ base: 12, md: 6 }}>
              <Logs flow={flow} worker={worker} limit={100} />
            </Grid.Col>
          </Grid>
        </>
      )}
    </Stack>
  );
}
