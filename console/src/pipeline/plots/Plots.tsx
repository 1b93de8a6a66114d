import { SegmentedControl, SimpleGrid, Skeleton } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Flow, TimeRange } from "headwater-client";
import { Suspense } from "react";

import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { lazyPart } from "../../common/lazy_part.ts";
import { Section } from "../../common/Section.tsx";
import { RANGES } from "../range.ts";
import { plotData, PLOTS } from "./plot_data.ts";

const Plot = lazyPart(() => import("../../common/plot/Plot.tsx"));
const HEIGHT = 150;

/** Four plots with one crosshair. Drag to zoom, double-click to zoom out. */
export function Plots({ flow }: { flow: Flow }) {
  const { range = "1h" } = useSearch({ from: "/pipelines/$id/overview" });
  const navigate = useNavigate({ from: "/pipelines/$id/overview" });
  const { data: metrics, error } = useQuery({
    queryKey: ["pipeline", flow.id, "metrics", range],
    queryFn: ({ signal }) => flow.metrics({ timeRange: range, signal }),
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
  });
  const { data: revisions } = useQuery({
    queryKey: ["pipeline", flow.id, "revisions", "newest"],
    queryFn: async ({ signal }) => (await flow.revisionPage({ limit: 100, signal })).items,
    staleTime: 15_000,
  });
  const marks = (revisions ?? []).flatMap(({ revision, deployed_at }) =>
    deployed_at ? [{ time: Date.parse(deployed_at) / 1000, label: `${revision}` }] : []
  );
  const control = (
    <SegmentedControl
      aria-label="Time range"
      data={RANGES.map(({ value, label }) => ({ value, label }))}
      value={range}
      onChange={(value) => navigate({ search: { range: value as TimeRange }, replace: true })}
    />
  );
  return (
    <Section title="Figures" right={control}>
      {error && !metrics && <ErrorNotice error={error} />}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md" verticalSpacing="xs">
        {PLOTS.map((plot) => (
          <Suspense key={plot.title} fallback={<Skeleton height={HEIGHT + 24} />}>
            {metrics
              ? (
                <Plot
                  title={plot.title}
                  unit={plot.unit}
                  series={plot.series}
                  data={plotData(plot, metrics, range)}
                  marks={marks}
                  height={HEIGHT}
                />
              )
              : <Skeleton height={HEIGHT + 24} />}
          </Suspense>
        ))}
      </SimpleGrid>
    </Section>
  );
}
