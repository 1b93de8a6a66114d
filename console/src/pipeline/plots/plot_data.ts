import type { Metrics, MetricSeries, TimeRange } from "headwater-client";

import type { Line, Unit } from "../../common/plot/Plot.tsx";
import { RANGES } from "../range.ts";

/** A line that shows a metric. */
interface MetricLine extends Line {
  metric: MetricSeries["metric_type"];
}

/** What a plot shows. */
export interface PlotKind {
  title: string;
  unit: Unit;
  series: MetricLine[];
}

export const PLOTS: PlotKind[] = [
  {
    title: "Records per second",
    unit: "/s",
    series: [
      { metric: "messages_received", label: "in", color: "water" },
      { metric: "messages_sent", label: "out", color: "green" },
    ],
  },
  {
    title: "Latency, median",
    unit: "ms",
    series: [
      { metric: "total_latency", label: "source to sink", color: "water" },
      { metric: "processing_latency", label: "in the worker", color: "grape" },
    ],
  },
  {
    title: "Errors",
    unit: "",
    series: [
      { metric: "processor_error", label: "transforms", color: "red" },
      { metric: "output_error", label: "sinks", color: "yellow" },
    ],
  },
  {
    title: "Age of data, median",
    unit: "ms",
    series: [{ metric: "data_age", label: "age", color: "water" }],
  },
];

/** Returns the times of the whole steps of the range, in seconds, and a value of each line at each of them. */
export function plotData(
  plot: PlotKind,
  metrics: Metrics,
  range: TimeRange,
): [number[], ...(number | null)[][]] {
  const { seconds, step } = RANGES.find(({ value }) => value === range)!;
  const last = Math.floor(Date.now() / 1000 / step) * step - step;
  const times = Array.from(
    { length: seconds / step },
    (_, index) => last - seconds + (index + 1) * step,
  );
  const indexes = new Map(times.map((time, index) => [time, index]));
  const missing = plot.unit === "ms" ? null : 0;
  const columns = plot.series.map(({ metric }) => {
    const column = new Array<number | null>(times.length).fill(missing);
    for (
      const { timestamp, value } of metrics.metrics.find((each) =>
        each.metric_type === metric
      )?.points ?? []
    ) {
      const index = indexes.get(Math.floor(Date.parse(timestamp) / 1000 / step) * step);
      if (index !== undefined) column[index] = plot.unit === "/s" ? value / step : value;
    }
    return column;
  });
  return [times, ...columns];
}
