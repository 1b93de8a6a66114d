import { Button, Group, Stack, Title } from "@mantine/core";
import { useDisclosure, useDocumentTitle } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { NotFound } from "headwater-client";
import { Trash2 } from "lucide-react";
import { useMemo } from "react";

import { useHeadwater } from "../app/session.tsx";
import { ConfirmModal } from "../common/ConfirmModal.tsx";
import { Empty } from "../common/Empty.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { datasetSource } from "../values/value_source.ts";
import { ValuesPanel } from "../values/ValuesPanel.tsx";

/** One dataset and its values. */
export function DatasetPage() {
  const hw = useHeadwater();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { id } = useParams({ from: "/datasets/$id" });
  const [isOpen, modal] = useDisclosure();
  const { data: dataset, error, refetch } = useQuery({
    queryKey: ["dataset", id],
    queryFn: ({ signal }) => hw.datasets.get(id, { signal }),
    structuralSharing: false,
    staleTime: Infinity,
  });
  const source = useMemo(() => dataset && datasetSource(dataset), [dataset]);
  useDocumentTitle(`${dataset?.name ?? "Dataset"} – Headwater`);
  if (error instanceof NotFound) {
    return (
      <Empty title="This dataset does not exist">
        It was deleted, or belongs to another owner.
      </Empty>
    );
  }
  if (!dataset || !source) return error && <ErrorNotice error={error} retry={() => refetch()} />;
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={1}>{dataset.name}</Title>
        <Button variant="default" leftSection={<Trash2 size={14} />} onClick={modal.open}>
          Delete…
        </Button>
      </Group>
      <ValuesPanel key={source.key.join(":")} source={source} />
      <ConfirmModal
        title={`Delete ${dataset.name}?`}
        text="Its values are removed, and scripts that look values up in it fail from then on. This can't be undone."
        action="Delete"
        isOpen={isOpen}
        close={modal.close}
        work={async () => {
          await dataset.delete();
          await queries.invalidateQueries({ queryKey: ["datasets"] });
          await navigate({ to: "/datasets" });
        }}
      />
    </Stack>
  );
}
