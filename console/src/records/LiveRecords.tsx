import { Button, Grid, Group, Stack, TextInput } from "@mantine/core";
import { Pause, Play, Search } from "lucide-react";
import { useMemo, useState } from "react";

import { Empty } from "../common/Empty.tsx";
import { exact } from "../common/numbers.ts";
import { RecordList } from "./RecordList.tsx";
import { RecordPanel } from "./RecordPanel.tsx";
import type { Row, TailBuffer } from "./tail_buffer.ts";
import { TailStatus } from "./TailStatus.tsx";
import { useRowFilter } from "./use_row_filter.ts";
import { useTail, useTailChanges } from "./use_tail.ts";

const HEIGHT = "calc(100dvh - 280px)";

/** What the page shows while the list is paused. */
interface Frozen {
  rows: Row[];
  /** How many records had arrived. */
  received: number;
}

/** Shows the records of a topic as they arrive. The user can filter them, pause the list, and open a record. */
export function LiveRecords({ topic, filter, setFilter }: {
  topic: string;
  filter: string;
  setFilter: (filter: string) => void;
}) {
  const tail = useTail(useMemo(() => [topic], [topic]));
  const { buffer } = tail;
  const [frozen, setFrozen] = useState<Frozen>();
  const [open, setOpen] = useState<Row>();
  const clear = () => {
    buffer.clear();
    if (frozen) setFrozen({ rows: [], received: buffer.received });
  };
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
          onClick={() =>
            setFrozen(frozen ? undefined : { rows: [...buffer.rows], received: buffer.received })}
        >
          {frozen ? <Resume buffer={buffer} received={frozen.received} /> : "Pause"}
        </Button>
        <Button variant="subtle" color="gray" onClick={clear}>Clear</Button>
        <TailStatus tail={tail} isPaused={frozen !== undefined} />
      </Group>
      <Grid>
        <Grid.Col span={{ base: 12, md: open ? 7 : 12 }} order={{ base: 2, md: 1 }}>
          <LiveList
            buffer={buffer}
            frozen={frozen?.rows}
            filter={filter}
            selected={open?.sequence}
            select={setOpen}
          />
        </Grid.Col>
        {open && (
          <Grid.Col span={{ base: 12, md: 5 }} order={{ base: 1, md: 2 }}>
            <RecordPanel record={open} close={() => setOpen(undefined)} height={HEIGHT} />
          </Grid.Col>
        )}
      </Grid>
    </Stack>
  );
}

function Resume({ buffer, received }: { buffer: TailBuffer; received: number }) {
  useTailChanges(buffer);
  return `Resume (${exact(buffer.received - received)} new)`;
}

/** The list alone is rendered again with each batch of records. */
function LiveList({ buffer, frozen, filter, selected, select }: {
  buffer: TailBuffer;
  /** The rows of a paused list. */
  frozen: Row[] | undefined;
  filter: string;
  selected: number | undefined;
  select: (row: Row) => void;
}) {
  useTailChanges(buffer);
  const { rows, isDone } = useRowFilter(frozen ?? buffer.rows, filter.toLowerCase());
  if (rows.length > 0) {
    return <RecordList rows={rows} selected={selected} select={select} height={HEIGHT} />;
  }
  return (
    <Empty
      title={!filter
        ? "Waiting for records"
        : isDone
        ? "No record has this text"
        : "Searching the records"}
    >
      {filter ? "" : "Records appear here as they are appended; older ones are not shown."}
    </Empty>
  );
}
