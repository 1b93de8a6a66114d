import { Button, Grid, Group, Stack, TextInput } from "@mantine/core";
import { Pause, Play, Search } from "lucide-react";
import { useMemo, useState } from "react";

import { Empty } from "../common/Empty.tsx";
import { RecordList } from "./RecordList.tsx";
import { RecordPanel } from "./RecordPanel.tsx";
import type { Row } from "./tail_buffer.ts";
import { TailStatus } from "./TailStatus.tsx";
import { useRowFilter } from "./use_row_filter.ts";
import { useTail } from "./use_tail.ts";

const HEIGHT = "calc(100dvh - 280px)";

/** The records of a topic as they arrive: filter while they stream, stop to look, open one. */
export function LiveRecords({ topic, filter, setFilter }: {
  topic: string;
  filter: string;
  setFilter: (filter: string) => void;
}) {
  const view = useTail(useMemo(() => [topic], [topic]));
  const [frozen, setFrozen] = useState<Row[]>();
  const [open, setOpen] = useState<Row>();
  const { rows, isDone } = useRowFilter(frozen ?? view.rows, filter.toLowerCase());
  return (
    <Stack gap="sm">
      <Group gap="sm">
        <TextInput
          aria-label="Filter the records"
          placeholder="Text in the record or the key"
          leftSection={<Search size={14} />}
          value={filter}
          onChange={(event) => setFilter(event.currentTarget.value)}
          w={280}
        />
        <Button
          variant="default"
          leftSection={frozen ? <Play size={14} /> : <Pause size={14} />}
          onClick={() => setFrozen(frozen ? undefined : [...view.rows])}
        >
          {frozen ? `Go on (${view.rows.length - frozen.length} new)` : "Hold"}
        </Button>
        <Button variant="subtle" color="gray" onClick={view.clear}>Clear</Button>
        <TailStatus view={view} />
      </Group>
      {rows.length === 0
        ? (
          <Empty
            title={!filter
              ? "Waiting for records"
              : isDone
              ? "No record has this text"
              : "Searching the records"}
          >
            {filter ? "" : "Records appear here as they are appended; older ones are not shown."}
          </Empty>
        )
        : (
          <Grid>
            <Grid.Col span={{ base: 12, md: open ? 7 : 12 }}>
              <RecordList rows={rows} selected={open?.row} select={setOpen} height={HEIGHT} />
            </Grid.Col>
            {open && (
              <Grid.Col span={{ base: 12, md: 5 }}>
                <RecordPanel record={open} close={() => setOpen(undefined)} height={HEIGHT} />
              </Grid.Col>
            )}
          </Grid>
        )}
    </Stack>
  );
}
