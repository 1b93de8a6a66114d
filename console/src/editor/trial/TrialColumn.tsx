import {
  Accordion,
  Alert,
  Badge,
  Button,
  Group,
  ScrollArea,
  Stack,
  Text,
  Title,
} from "@mantine/core";
import { Unprocessable } from "headwater-client";

import { Empty } from "../../common/Empty.tsx";
import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { Rows } from "../../common/Rows.tsx";
import { useDelayed } from "../../common/use_delayed.ts";
import type { EditedDocument } from "../document.ts";
import { Comparison } from "./Comparison.tsx";
import { TrialRow } from "./TrialRow.tsx";
import type { TrialResult } from "./use_trial.ts";

/** The last records of the stream through all transforms, and what would change. */
export function TrialColumn({ trial, document, isDeployed, title }: {
  trial: TrialResult;
  document: EditedDocument;
  isDeployed: boolean;
  title: string;
}) {
  const { data, error, isFetching, isPending } = trial;
  const isSlow = useDelayed(isPending);
  const summary = data?.summary;
  const on =
    data?.transformKeys.map((key) => document.transforms.find((each) => each.key === key)) ?? [];
  const unfinished = summary?.unfinished ?? 0;
  const reason = data?.records?.find(({ outcome }) => outcome === "unfinished")?.reason;
  const others = error instanceof Unprocessable
    ? error.errors.filter(({ pointer }) => !pointer.startsWith("/pipeline_config/transforms/"))
    : [];
  return (
    <Stack gap="xs" component="section" aria-label="Trial">
      <Group gap="xs" role="status">
        <Title order={2}>{title}</Title>
        {summary && !error && (
          <Text size="xs" c="dimmed">
            {summary.sent} sent · {summary.dropped} dropped · {summary.error} failed
            {unfinished > 0 && ` · ${unfinished} not finished`}
          </Text>
        )}
        {isFetching && <Badge color="blue">trying</Badge>}
        {error instanceof Unprocessable && <Badge color="red">not valid</Badge>}
      </Group>
      {isDeployed && data?.comparison && !error && unfinished === 0 && (
        <Comparison comparison={data.comparison} />
      )}
      {unfinished > 0 && !error && (
        <Alert color="yellow" py="xs" title="The trial is not complete">
          <Group gap="sm">
            <Text size="sm">{reason}</Text>
            <Button variant="default" onClick={() => trial.refetch()}>Try again</Button>
          </Group>
        </Alert>
      )}
      {others.map(({ pointer, detail }) => (
        <Alert key={pointer + detail} color="red" py="xs">{pointer}: {detail}</Alert>
      ))}
      {error && !(error instanceof Unprocessable) && (
        <ErrorNotice
          error={error}
          retry={() => trial.refetch()}
        />
      )}
      {isSlow && <Rows />}
      {data?.records?.length === 0 && (
        <Empty title="The stream has no records yet">
          Records appear here as soon as some are written to it.
        </Empty>
      )}
      {data?.records && data.records.length > 0 && (
        <ScrollArea.Autosize
          mah="calc(100dvh - 260px)"
          viewportProps={{ tabIndex: 0, "aria-label": "Records of the trial" }}
        >
          <Accordion chevronPosition="left" variant="default" transitionDuration={0}>
            {data.records.toReversed().map((record, index) => (
              <TrialRow
                key={`${record.input?.partition}/${record.input?.offset}/${index}`}
                record={record}
                transforms={on}
              />
            ))}
          </Accordion>
        </ScrollArea.Autosize>
      )}
    </Stack>
  );
}
