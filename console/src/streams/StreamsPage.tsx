import { Badge, Group, Stack, Table, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { useHeadwater } from "../app/session.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { LinkAnchor } from "../common/links.tsx";
import { PageSearch } from "../common/PageSearch.tsx";
import { Rows } from "../common/Rows.tsx";
import { useDelayed } from "../common/use_delayed.ts";

/** What the list shows, as it is in the address of the page. */
export interface StreamsSearch {
  q?: string;
}

export function readStreams(search: Record<string, unknown>): StreamsSearch {
  return search["q"] ? { q: String(search["q"]) } : {};
}

/** The streams that pipelines can read. */
export function StreamsPage() {
  const hw = useHeadwater();
  const { q = "" } = useSearch({ from: "/streams" });
  const navigate = useNavigate({ from: "/streams" });
  const { data: streams, error, isPending, refetch } = useQuery({
    queryKey: ["streams"],
    queryFn: ({ signal }) => hw.streams.list({ signal }),
    staleTime: Infinity,
  });
  const isSlow = useDelayed(isPending);
  useDocumentTitle("Streams – Headwater");
  const shown = streams?.filter(({ chain, entity, description }) =>
    `${chain} ${entity} ${description}`.toLowerCase().includes(q.toLowerCase())
  );
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={1}>Streams</Title>
        <PageSearch
          label="Search streams"
          placeholder="Chain or entity"
          text={q}
          change={(text) => navigate({ search: text ? { q: text } : {}, replace: true })}
        />
      </Group>
      {isSlow && <Rows />}
      {error && !streams && <ErrorNotice error={error} retry={() => refetch()} />}
      {shown && (
        <Table.ScrollContainer minWidth={700}>
          <Table layout="fixed">
            <Table.Thead>
              <Table.Tr>
                <Table.Th w={250} fz="xs">Stream</Table.Th>
                <Table.Th fz="xs">What it has</Table.Th>
                <Table.Th w={180} fz="xs">Event time</Table.Th>
                <Table.Th w={120} fz="xs">Zerolag</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {shown.map(({ chain, entity, description, event_time, has_zerolag }) => (
                <Table.Tr key={`${chain} ${entity}`} h={36}>
                  <Table.Td>
                    <LinkAnchor
                      to="/streams/$chain/$entity"
                      params={{ chain, entity }}
                      size="sm"
                      fw={500}
                    >
                      {chain} {entity}
                    </LinkAnchor>
                  </Table.Td>
                  <Table.Td>
                    <Text size="sm">{description}</Text>
                  </Table.Td>
                  <Table.Td>
                    <Text size="xs" ff="monospace" c="dimmed">{event_time ?? "append time"}</Text>
                  </Table.Td>
                  <Table.Td>{has_zerolag && <Badge color="water">zerolag</Badge>}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Stack>
  );
}
