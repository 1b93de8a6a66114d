import { QueryClient } from "@tanstack/react-query";
import { ConnectionFailed, Unavailable } from "headwater-client";

const MAX_REPEATS = 2;

/** Repeats only what may succeed later, and keeps the last answer on the page meanwhile. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (count, error) =>
        count < MAX_REPEATS && (error instanceof ConnectionFailed || error instanceof Unavailable),
      staleTime: 2_000,
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});
