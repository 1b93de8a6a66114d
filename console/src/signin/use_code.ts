import { useMutation } from "@tanstack/react-query";
import { signIn as exchange } from "headwater-client";
import { useEffect } from "react";

import { useSession } from "../app/session.tsx";
import { code } from "./code.ts";

let isUsed = false;

/** Signs in with the code of the link that opened the page, if it has one. */
export function useCode() {
  const { signIn } = useSession();
  const exchanging = useMutation({
    mutationFn: () => exchange(code),
    onSuccess: ({ key }) => signIn(key, true),
  });
  const { mutate } = exchanging;
  useEffect(() => {
    if (!code || isUsed) return;
    isUsed = true;
    mutate();
  }, [mutate]);
  return exchanging;
}
