import { useQueryClient } from "@tanstack/react-query";
import { Unauthenticated } from "headwater-client";
import { useEffect } from "react";

import { useSession } from "../app/session.tsx";

/** Signs out as soon as the server refuses the key: it was revoked, or has expired. */
export function useSignOutWithKey() {
  const { signOut } = useSession();
  const queries = useQueryClient();
  useEffect(() => {
    const check = (error: unknown) => {
      if (error instanceof Unauthenticated) {
        signOut("The API key is no longer valid: it was revoked, or has expired.");
      }
    };
    const stops = [
      queries.getQueryCache().subscribe(({ query }) => check(query?.state.error)),
      queries.getMutationCache().subscribe(({ mutation }) => check(mutation?.state.error)),
    ];
    return () => stops.forEach((stop) => stop());
  }, [queries, signOut]);
}
