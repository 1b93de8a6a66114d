import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { exact } from "../common/numbers.ts";
import type { ValueSource } from "./value_source.ts";

/** Adds or removes values, says how many have changed, and reads the set again. */
export function useWrite(source: ValueSource) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ kind, values }: { kind: "add" | "remove"; values: string[] }) => {
      const { changed } = await source.set[kind](values);
      return { kind, changed, sent: values.length };
    },
    onSuccess: ({ kind, changed, sent }) => {
      const rest = sent - changed;
      const why = kind === "add" ? "were in the set already" : "were not in the set";
      notifications.show({
        color: "green",
        message: `${exact(changed)} ${kind === "add" ? "added" : "removed"}${
          rest ? `; ${exact(rest)} ${why}` : ""
        }.`,
      });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: source.key }),
  });
}
