import { Button, Group, Stack, Table, TextInput, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import { useHeadwater } from "../app/session.tsx";
import { Age } from "../common/Age.tsx";
import { CopyText } from "../common/CopyText.tsx";
import { Empty } from "../common/Empty.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { LinkAnchor } from "../common/links.tsx";
import { Rows } from "../common/Rows.tsx";
import { useDelayed } from "../common/use_delayed.ts";

/** The datasets in which scripts look values up. */
export function DatasetsPage() {
  const hw = useHeadwater();
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const { data: datasets, error, isPending, refetch } = useQuery({
    queryKey: ["datasets"],
    queryFn: ({ signal }) => Array.fromAsync(hw.datasets.list({ signal }), ({ info }) => info),
  });
  const create = useMutation({
    mutationFn: () => hw.datasets.create(name.trim()),
    onSuccess: () => {
      setName("");
      return queries.invalidateQueries({ queryKey: ["datasets"] });
    },
  });
  const isSlow = useDelayed(isPending);
  useDocumentTitle("Datasets – Headwater");
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={1}>Datasets</Title>
        <Group
          gap="xs"
          component="form"
          onSubmit={(event) => {
            event.preventDefault();
            create.mutate();
          }}
        >
          <TextInput
            aria-label="Name of a new dataset"
            placeholder="Name"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <Button
            type="submit"
            leftSection={<Plus size={14} />}
            disabled={!name.trim()}
            loading={create.isPending}
          >
            Create
          </Button>
        </Group>
      </Group>
      {create.error && <ErrorNotice error={create.error} />}
      {isSlow && <Rows />}
      {error && !datasets && <ErrorNotice error={error} retry={() => refetch()} />}
      {datasets?.length === 0 && (
        <Empty title="No datasets yet">
          A dataset is a named set of values that scripts look up: flow.contains("watched",
          [record.from_address]). Create one above.
        </Empty>
      )}
      {datasets && datasets.length > 0 && (
        <Table layout="fixed">
          <Table.Thead>
            <Table.Tr>
              <Table.Th fz="xs">Name</Table.Th>
              <Table.Th fz="xs">Id</Table.Th>
              <Table.Th fz="xs" ta="right">Created</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {datasets.map((info) => (
              <Table.Tr key={info.id} h={36}>
                <Table.Td>
                  <LinkAnchor to="/datasets/$id" params={{ id: info.id }} size="sm" fw={500}>
                    {info.name}
                  </LinkAnchor>
                </Table.Td>
                <Table.Td>
                  <CopyText text={info.id} />
                </Table.Td>
                <Table.Td ta="right">
                  <Age time={info.created_at} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Stack>
  );
}
