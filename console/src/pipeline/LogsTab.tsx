import { Logs } from "./Logs.tsx";
import { NotDeployed } from "./NotDeployed.tsx";
import { usePipeline } from "./pipeline_context.ts";
import { useDeployment } from "./use_pipeline.ts";

/** All kept lines of the workers and the scripts. */
export function LogsTab() {
  const flow = usePipeline();
  const { data: deployment } = useDeployment(flow);
  if (deployment === null) return <NotDeployed what="a log" />;
  return <Logs flow={flow} limit={1000} height="calc(100dvh - 240px)" />;
}
