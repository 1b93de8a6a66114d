import type { Flow } from "headwater-client";
import { createContext, useContext } from "react";

export const PipelineContext = createContext<Flow | undefined>(undefined);

/** Returns the pipeline of the page. */
export function usePipeline(): Flow {
  const flow = useContext(PipelineContext);
  if (!flow) throw new Error("This component belongs on the page of a pipeline.");
  return flow;
}
