import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { useHeadwater } from "../app/session.tsx";
import { textOf } from "../common/errors.ts";
import type { Template } from "./templates.ts";

/** Creates a draft from a template, and opens it in the editor. */
export function useCreate() {
  const hw = useHeadwater();
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ document }: Template) => hw.flows.create(document),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ["overview"] });
      await navigate({ to: "/pipelines/$id/edit", params: { id } });
    },
    onError: (error) =>
      notifications.show({
        color: "red",
        title: "The draft was not created",
        message: textOf(error),
        autoClose: false,
      }),
  });
}
