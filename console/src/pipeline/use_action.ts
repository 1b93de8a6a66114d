import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { Flow } from "headwater-client";

import { textOf } from "../common/errors.ts";

/** Does something with a pipeline, says how it ended, and reads the pipeline again. */
export function useAction(flow: Flow, done: string, work: () => Promise<unknown>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: work,
    onSuccess: () => notifications.show({ color: "green", message: `${flow.name} ${done}.` }),
    onError: (error) =>
      notifications.show({
        color: "red",
        title: "That did not work",
        message: textOf(error),
        autoClose: false,
      }),
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["overview"] });
      return queries.invalidateQueries({ queryKey: ["pipeline", flow.id] });
    },
  });
}
