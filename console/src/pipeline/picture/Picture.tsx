import { ScrollArea } from "@mantine/core";
import type { Flow, Sink, Transform } from "headwater-client";

import { recentRate } from "../../common/numbers.ts";
import { useDeployed, useItem } from "../use_pipeline.ts";
import { BOX_HEIGHT, BOX_WIDTH, GAP, ROW } from "./sizes.ts";
import { Box } from "./Box.tsx";
import { Edge } from "./Edge.tsx";
import { ratesOf } from "./rates.ts";

/** Source, transforms and sinks from left to right, with what flows between them. */
export function Picture({ flow, isDeployed }: { flow: Flow; isDeployed: boolean }) {
  const { data: item } = useItem(flow.id);
  const { data: metrics } = useDeployed(
    flow,
    ["by-transform"],
    (each, signal) => each.metricsByTransform({ signal }),
    isDeployed ? 10_000 : false,
  );
  const { source, transforms = [], sinks } = flow.pipeline;
  const rates = ratesOf(flow, metrics);
  const rows = Math.max(sinks.length, 1);
  const width = (transforms.length + 2) * BOX_WIDTH + (transforms.length + 1) * GAP + 2;
  const height = rows * ROW + 26;
  const middle = (rows * ROW - (ROW - BOX_HEIGHT)) / 2;
  const xOf = (column: number) => 1 + column * (BOX_WIDTH + GAP);
  const rateInto = (index: number): number | undefined => {
    if (!isDeployed) return undefined;
    const next = transforms[index] && rates.get(transforms[index].uid);
    if (next) return next.receivedPerS;
    const last = transforms.at(-1) && rates.get(transforms.at(-1)!.uid);
    return last ? last.sentPerS : recentRate(item?.messages_received ?? []);
  };
  return (
    <ScrollArea
      type="auto"
      viewportProps={{ tabIndex: 0, "aria-label": "The pipeline as a picture" }}
    >
      <svg width={width} height={height} role="group" aria-label="Source, transforms and sinks">
        {transforms.map((transform, index) => (
          <Edge
            key={transform.uid}
            from={[xOf(index) + BOX_WIDTH, middle]}
            to={[xOf(index + 1), middle]}
            rate={rateInto(index)}
          />
        ))}
        {sinks.map((sink, row) => (
          <Edge
            key={sink.name}
            from={[xOf(transforms.length) + BOX_WIDTH, middle]}
            to={[xOf(transforms.length + 1), row * ROW + BOX_HEIGHT / 2]}
            rate={rateInto(transforms.length)}
          />
        ))}
        <Box
          x={xOf(0)}
          y={middle - BOX_HEIGHT / 2}
          kind="source"
          title={source.entity}
          text={`stream of ${source.chain}${source.is_zerolag ? ", zerolag" : ""}`}
        />
        {transforms.map((transform, index) => (
          <Box
            key={transform.uid}
            x={xOf(index + 1)}
            y={middle - BOX_HEIGHT / 2}
            kind={transform.type}
            title={transform.name ?? NAMES[transform.type]}
            text={codeOf(transform)}
            rates={isDeployed ? rates.get(transform.uid) : undefined}
            configId={flow.id}
            uid={transform.uid}
          />
        ))}
        {sinks.map((sink, row) => (
          <Box
            key={sink.name}
            x={xOf(transforms.length + 1)}
            y={row * ROW}
            kind="sink"
            title={sink.name}
            text={SINKS[sink.type]}
          />
        ))}
      </svg>
    </ScrollArea>
  );
}

const NAMES: Record<Transform["type"], string> = { redis_set_filter: "Filter", v8: "Script" };
const SINKS: Record<Sink["type"], string> = { kafka: "Kafka topic", prices: "token prices" };

function codeOf(transform: Transform): string {
  return transform.type === "v8" ? transform.script : transform.filter_expr;
}
