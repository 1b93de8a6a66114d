import { QueryClient } from "@tanstack/react-query";

import { isTemporary } from "../common/errors.ts";

const AGAIN_MS = 5_000;

/** Reads again what could not be read, and keeps the last answer on the page meanwhile. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      retry: false,
      refetchInterval: ({ state }) => isTemporary(state.error) ? AGAIN_MS : false,
      staleTime: 2_000,
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});
