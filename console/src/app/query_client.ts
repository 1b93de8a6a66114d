import { QueryClient } from "@tanstack/react-query";
import { Conflict } from "headwater-client";

import { isTemporary } from "../common/errors.ts";

const AGAIN_MS = 5_000;

/** Reads again what could not be read, and keeps the last answer on the page meanwhile. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      retry: false,
      // A trial that is sent again conflicts with its first request until that has ended.
      refetchInterval: ({ state: { error } }) =>
        isTemporary(error) || error instanceof Conflict ? AGAIN_MS : false,
      staleTime: 2_000,
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});
