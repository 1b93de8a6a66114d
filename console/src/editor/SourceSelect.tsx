import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { NewSource } from "headwater-client";

import { useHeadwater } from "../app/session.tsx";

/** The stream that the pipeline reads. */
export function SourceSelect(
  { source, select }: { source: NewSource; select: (source: NewSource) => void },
) {
  const hw = useHeadwater();
  const { data: streams = [source] } = useQuery({
    queryKey: ["streams"],
    queryFn: ({ signal }) => hw.streams.list({ signal }),
    staleTime: Infinity,
  });
  const chains = [...new Set(streams.map(({ chain }) => chain))];
  const data = chains.map((chain) => ({
    group: chain,
    items: streams.filter((stream) => stream.chain === chain).map(({ entity }) => ({
      value: `${chain} ${entity}`,
      label: `${chain} ${entity}`,
    })),
  }));
  return (
    <Select
      label="Source"
      searchable
      data={data}
      value={`${source.chain} ${source.entity}`}
      onChange={(value) => {
        const [chain, entity] = (value ?? "").split(" ");
        if (!chain || !entity) return;
        const { type: _, ...rest } = source;
        select({ ...rest, chain, entity });
      }}
    />
  );
}
