import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import {
  type Deployment,
  type Flow,
  NotAllowed,
  NotFound,
  type OverviewItem,
} from "headwater-client";

import { useHeadwater } from "../app/session.tsx";

export const EVERY_MS = 5_000;

/** The configuration of a pipeline. */
export function useFlow(id: string): UseQueryResult<Flow> {
  const hw = useHeadwater();
  return useQuery({
    queryKey: ["pipeline", id, "flow"],
    queryFn: ({ signal }) => hw.flows.get(id, { signal }),
    refetchInterval: 15_000,
    structuralSharing: false,
  });
}

/** The state, the rates and the errors of a pipeline in the last hour. */
export function useItem(id: string): UseQueryResult<OverviewItem | null> {
  const hw = useHeadwater();
  return useQuery({
    queryKey: ["pipeline", id, "item"],
    queryFn: async ({ signal }) => {
      const { items } = await hw.flows.overviewPage({ q: id, limit: 10, signal });
      return items.find((item) => item.id === id) ?? null;
    },
    refetchInterval: EVERY_MS,
  });
}

/** The deployment of a pipeline; null when it has none, or when the key may not see it. */
export function useDeployment(flow: Flow | undefined): UseQueryResult<Deployment | null> {
  return useQuery({
    queryKey: ["pipeline", flow?.id, "deployment"],
    queryFn: async ({ signal }) => {
      try {
        return await flow!.deployment({ signal });
      } catch (error) {
        if (error instanceof NotFound || error instanceof NotAllowed) return null;
        throw error;
      }
    },
    enabled: flow !== undefined,
    refetchInterval: EVERY_MS,
  });
}

/** Runs a query of a deployed pipeline; the answer is null while it is not deployed. */
export function useDeployed<T>(
  flow: Flow,
  name: readonly unknown[],
  read: (flow: Flow, signal: AbortSignal) => Promise<T>,
  everyMs: number | false = EVERY_MS,
): UseQueryResult<T | null> {
  return useQuery({
    queryKey: ["pipeline", flow.id, ...name],
    queryFn: async ({ signal }) => {
      try {
        return await read(flow, signal);
      } catch (error) {
        if (error instanceof NotFound) return null;
        throw error;
      }
    },
    refetchInterval: everyMs,
  });
}
