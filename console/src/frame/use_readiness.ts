import { useQuery, useQueryClient } from "@tanstack/react-query";
import { ConnectionFailed, RequestFailed, Unavailable } from "headwater-client";
import { useEffect, useRef } from "react";

import { useHeadwater } from "../app/session.tsx";

const KEY = ["readiness"];
const EVERY_MS = 10_000;
const EVERY_MS_WHILE_UNAVAILABLE = 2_000;

/** What works. */
export interface ServiceState {
  error: Error | null;
  isPending: boolean;
  /** The services that are unavailable; undefined while the API itself does not answer. */
  unavailable: string[] | undefined;
}

/** Whether the API answers, and which of the services that it needs are unavailable. */
export function useReadiness(): ServiceState {
  const hw = useHeadwater();
  const { error, isPending } = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => hw.readiness({ signal, timeoutMs: 5_000 }),
    refetchInterval: ({ state }) => state.error ? EVERY_MS_WHILE_UNAVAILABLE : EVERY_MS,
  });
  return {
    error,
    isPending,
    unavailable: error instanceof RequestFailed ? unavailableOf(error) : undefined,
  };
}

/** Looks at once whether the service works when a request fails, and reads everything again when it is back. */
export function useRecovery() {
  const queries = useQueryClient();
  const { error } = useReadiness();
  const wasUnavailable = useRef(false);
  useEffect(() => {
    if (wasUnavailable.current && !error) {
      void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== KEY[0] });
    }
    wasUnavailable.current = error !== null;
  }, [queries, error]);
  useEffect(() =>
    queries.getQueryCache().subscribe(({ type, query }) => {
      if (type !== "updated" || query.queryKey[0] === KEY[0]) return;
      const failure = query.state.fetchStatus === "idle" && query.state.error;
      if (failure instanceof ConnectionFailed || failure instanceof Unavailable) {
        void queries.invalidateQueries({ queryKey: KEY }, { cancelRefetch: false });
      }
    }), [queries]);
}

function unavailableOf({ problem }: RequestFailed): string[] {
  const { dependencies = {} } = problem as { dependencies?: Record<string, string> };
  return Object.keys(dependencies).filter((name) => dependencies[name] !== "ok");
}
