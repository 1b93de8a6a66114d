import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { Flow } from "headwater-client";

import { useHeadwater } from "../app/session.tsx";
import { bodyOf, type EditedDocument } from "./document.ts";

/** Saves the document, and deploys it if wanted. Says what happened. */
export function useSave(base: Flow, document: EditedDocument, onSaved: (flow: Flow) => void) {
  const hw = useHeadwater();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ deploy, isChanged }: { deploy: boolean; isChanged: boolean }) => {
      const flow = await hw.flows.get(base.id);
      if (!isChanged && flow.revision !== base.revision) {
        onSaved(flow);
        throw new Error(
          `Revision ${flow.revision} was saved meanwhile, and is shown now. Nothing was deployed.`,
        );
      }
      if (isChanged) {
        await flow.replace(bodyOf(base, document), { ifRevision: base.revision });
        onSaved(flow);
        for (const { pointer, detail } of flow.config.warnings ?? []) {
          notifications.show({
            color: "yellow",
            title: "Saved with a warning",
            message: `${pointer}: ${detail}`,
            autoClose: false,
          });
        }
      }
      if (deploy) await flow.deploy();
      return { flow, deploy };
    },
    onSuccess: ({ flow, deploy }) =>
      notifications.show({
        color: "green",
        message: deploy
          ? `Revision ${flow.revision} runs.`
          : `Revision ${flow.revision} is saved. What runs is unchanged until the next deploy.`,
      }),
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["overview"] });
      return queries.invalidateQueries({ queryKey: ["pipeline", base.id] });
    },
  });
}
