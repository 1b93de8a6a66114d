import { Button, Grid, Group } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Undo2 } from "lucide-react";

import { ConfirmModal } from "../../common/ConfirmModal.tsx";
import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { Rows } from "../../common/Rows.tsx";
import { Section } from "../../common/Section.tsx";
import { useDelayed } from "../../common/use_delayed.ts";
import { usePipeline } from "../pipeline_context.ts";
import { useAction } from "../use_action.ts";
import { DiffView } from "./DiffView.tsx";
import { RevisionTable } from "./RevisionTable.tsx";

/** Which revision is shown, as it is in the address of the page. */
export interface HistorySearch {
  revision?: number;
}

export function readHistory(search: Record<string, unknown>): HistorySearch {
  return typeof search["revision"] === "number" ? { revision: search["revision"] } : {};
}

/** What changed, when and by whom; and the way back. */
export function HistoryTab() {
  const flow = usePipeline();
  const search = useSearch({ from: "/pipelines/$id/history" });
  const navigate = useNavigate({ from: "/pipelines/$id/history" });
  const [isOpen, modal] = useDisclosure();
  const revision = search.revision ?? flow.revision;
  const { data: revisions, error, isPending } = useQuery({
    queryKey: ["pipeline", flow.id, "revisions", "newest"],
    queryFn: async ({ signal }) => (await flow.revisionPage({ limit: 100, signal })).items,
    staleTime: 15_000,
  });
  const isSlow = useDelayed(isPending);
  const rollback = useAction(
    flow,
    `is back at revision ${revision}`,
    () => flow.rollback(revision),
  );
  if (!revisions) return error ? <ErrorNotice error={error} /> : isSlow ? <Rows /> : null;
  return (
    <Grid gap="lg">
      <Grid.Col span={{ base: 12, md: 5 }}>
        <RevisionTable
          revisions={revisions}
          open={revision}
          select={(chosen) => navigate({ search: { revision: chosen }, replace: true })}
        />
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <Section
          title={`Revision ${revision}`}
          right={
            <Group gap="xs">
              {revision !== flow.revision && (
                <Button variant="default" leftSection={<Undo2 size={14} />} onClick={modal.open}>
                  Roll back to {revision}…
                </Button>
              )}
            </Group>
          }
        >
          <DiffView
            flow={flow}
            revision={revision}
            hasBefore={revisions.some((each) => each.revision < revision)}
          />
        </Section>
      </Grid.Col>
      <ConfirmModal
        title={`Roll back to revision ${revision}?`}
        text={`Revision ${revision} is saved again as the newest one. While the pipeline is deployed, its workers hand over to it.`}
        action="Roll back"
        isOpen={isOpen}
        close={modal.close}
        work={() => rollback.mutateAsync()}
      />
    </Grid>
  );
}
