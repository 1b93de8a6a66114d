import { ScrollArea, SegmentedControl, Stack } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { LiveRecords } from "../../records/LiveRecords.tsx";
import { NotDeployed } from "../NotDeployed.tsx";
import { usePipeline } from "../pipeline_context.ts";
import { useDeployment } from "../use_pipeline.ts";

/** Which topic of the pipeline is shown, as it is in the address of the page. */
export interface TailSearch {
  of?: string;
  text?: string;
}

export function readTail(search: Record<string, unknown>): TailSearch {
  return {
    ...(typeof search["of"] === "string" ? { of: search["of"] } : {}),
    ...(search["text"] !== undefined && search["text"] !== ""
      ? { text: String(search["text"]) }
      : {}),
  };
}

const STREAM = "stream";
const DEAD_LETTERS = "dlq";

/** The records of the stream, of an output, or of the dead letters, as they arrive. */
export function TailTab() {
  const flow = usePipeline();
  const { data: deployment } = useDeployment(flow);
  const sinks = flow.pipeline.sinks.filter(({ type }) => type === "kafka").map(({ name }) => name);
  const { of = sinks[0] ?? STREAM, text = "" } = useSearch({ from: "/pipelines/$id/tail" });
  const navigate = useNavigate({ from: "/pipelines/$id/tail" });
  const { chain, entity, is_zerolag } = flow.pipeline.source;
  const topic = of === STREAM
    ? `${chain}/${entity}${is_zerolag ? ".zerolag" : ""}`
    : `${flow.id}/${of}`;
  const choices = [
    { value: STREAM, label: `Stream ${chain} ${entity}` },
    ...sinks.map((name) => ({ value: name, label: `Output ${name}` })),
    { value: DEAD_LETTERS, label: "Dead letters" },
  ];
  return (
    <Stack gap="sm">
      <ScrollArea type="auto" offsetScrollbars="x">
        <SegmentedControl
          aria-label="Topic"
          data={choices}
          value={of}
          onChange={(value) =>
            navigate({ search: (before) => ({ ...before, of: value }), replace: true })}
        />
      </ScrollArea>
      {deployment === null && of !== STREAM ? <NotDeployed what="outputs" /> : (
        <LiveRecords
          topic={topic}
          filter={text}
          setFilter={(filter) =>
            navigate({
              search: ({ text: _, ...before }) => filter ? { ...before, text: filter } : before,
              replace: true,
            })}
        />
      )}
    </Stack>
  );
}
