import { Button, Code, Grid, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { RefreshCw } from "lucide-react";
import { useState } from "react";

import { useHeadwater } from "../app/session.tsx";
import { Age } from "../common/Age.tsx";
import { Empty } from "../common/Empty.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { Rows } from "../common/Rows.tsx";
import { useDelayed } from "../common/use_delayed.ts";
import { RecordList } from "../records/RecordList.tsx";
import { RecordPanel } from "../records/RecordPanel.tsx";
import type { Row } from "../records/tail_buffer.ts";

const RECORDS = 100;
const HEIGHT = "calc(100dvh - 240px)";

/** The newest records of a stream, read once. */
export function NewestRecords({ chain, entity }: { chain: string; entity: string }) {
  const hw = useHeadwater();
  const [open, setOpen] = useState<Row>();
  const { data: rows, error, isPending, isFetching, refetch } = useQuery({
    queryKey: ["stream", chain, entity],
    queryFn: async ({ signal }): Promise<Row[]> => {
      const records = await hw.streams.records(chain, entity, { limit: RECORDS, signal });
      return records.map((record, sequence) => ({ ...record, sequence }));
    },
  });
  const isSlow = useDelayed(isPending);
  const newest = rows?.at(-1)?.timestamp;
  if (error && !rows) return <ErrorNotice error={error} retry={() => refetch()} />;
  if (!rows) return isSlow ? <Rows /> : null;
  if (rows.length === 0) {
    return (
      <Empty title="No records yet">
        Nothing was written to this stream, or all of it is older than its retention. An ingest
        writes to it, or a file:{" "}
        <Code>headwater replay --chain {chain} --entity {entity} FILE</Code>
      </Empty>
    );
  }
  return (
    <Stack gap="sm">
      <Group gap="sm">
        <Text size="sm" c="dimmed">
          The newest of {rows.length} records is {newest && <Age time={newest} suffix="" />} old.
        </Text>
        <Button
          variant="default"
          leftSection={<RefreshCw size={14} />}
          loading={isFetching}
          onClick={() => refetch()}
        >
          Read again
        </Button>
      </Group>
      <Grid>
        <Grid.Col span={{ base: 12, md: open ? 7 : 12 }}>
          <RecordList rows={rows} selected={open?.sequence} select={setOpen} height={HEIGHT} />
        </Grid.Col>
        {open && (
          <Grid.Col span={{ base: 12, md: 5 }}>
            <RecordPanel record={open} close={() => setOpen(undefined)} height={HEIGHT} />
          </Grid.Col>
        )}
      </Grid>
    </Stack>
  );
}
