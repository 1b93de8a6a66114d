import { Group, SegmentedControl, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";

import { useHeadwater } from "../app/session.tsx";
import { Empty } from "../common/Empty.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { JsonView } from "../common/JsonView.tsx";
import { LiveRecords } from "../records/LiveRecords.tsx";
import { NewestRecords } from "./NewestRecords.tsx";

type View = "newest" | "live" | "example";

/** What the page shows, as it is in the address. */
export interface StreamSearch {
  view?: View;
  text?: string;
}

const VIEWS: { value: View; label: string }[] = [
  { value: "newest", label: "Newest" },
  { value: "live", label: "Live" },
  { value: "example", label: "Example" },
];

export function readStream(search: Record<string, unknown>): StreamSearch {
  const view = VIEWS.find(({ value }) => value === search["view"])?.value;
  return { ...(view ? { view } : {}), ...(search["text"] ? { text: String(search["text"]) } : {}) };
}

/** One stream: its newest records, its live ones, and the example of the catalog. */
export function StreamPage() {
  const hw = useHeadwater();
  const { chain, entity } = useParams({ from: "/streams/$chain/$entity" });
  const { view = "newest", text = "" } = useSearch({ from: "/streams/$chain/$entity" });
  const navigate = useNavigate({ from: "/streams/$chain/$entity" });
  const { data: streams, error, refetch } = useQuery({
    queryKey: ["streams"],
    queryFn: ({ signal }) => hw.streams.list({ signal }),
    staleTime: Infinity,
  });
  useDocumentTitle(`${chain} ${entity} – Headwater`);
  const stream = streams?.find((each) => each.chain === chain && each.entity === entity);
  if (streams && !stream) {
    return <Empty title="There is no such stream">The catalog has no {chain} {entity}.</Empty>;
  }
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Stack gap={2}>
          <Title order={1}>{chain} {entity}</Title>
          <Text size="sm" c="dimmed">{stream?.description}</Text>
        </Stack>
        <SegmentedControl
          aria-label="View"
          data={VIEWS}
          value={view}
          onChange={(value) =>
            navigate({ search: (before) => ({ ...before, view: value as View }), replace: true })}
        />
      </Group>
      {view === "newest" && <NewestRecords chain={chain} entity={entity} />}
      {view === "live" && (
        <LiveRecords
          topic={`${chain}/${entity}`}
          filter={text}
          setFilter={(filter) =>
            navigate({
              search: ({ text: _, ...before }) => filter ? { ...before, text: filter } : before,
              replace: true,
            })}
        />
      )}
      {view === "example" && stream && <JsonView value={stream.example} />}
      {view === "example" && error && !streams && (
        <ErrorNotice
          error={error}
          retry={() => refetch()}
        />
      )}
    </Stack>
  );
}
