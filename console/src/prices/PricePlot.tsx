import { SegmentedControl, Skeleton } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { PriceExplanation } from "headwater-client";
import { Suspense, useMemo } from "react";

import { lazyPart } from "../common/lazy_part.ts";
import { Section } from "../common/Section.tsx";
import { PRICE_LINES, priceData, priceRange } from "./price_data.ts";
import { useHistory } from "./use_tokens.ts";

const Plot = lazyPart(() => import("../common/plot/Plot.tsx"));
const HEIGHT = 200;

/** The prices of the last 25 hours: a line of those that count, and dots of those that do not. */
export function PricePlot({ chain, address, explanation }: {
  chain: string;
  address: string;
  explanation: PriceExplanation;
}) {
  const { all: isAll = false } = useSearch({ from: "/prices/$chain/$address" });
  const navigate = useNavigate({ from: "/prices/$chain/$address" });
  const { data: history } = useHistory(chain, address);
  const data = useMemo(
    () => history && priceData(history, explanation, Date.now()),
    [history, explanation],
  );
  const choice = (
    <SegmentedControl
      aria-label="Prices of the plot"
      data={[{ value: "counted", label: "That count" }, { value: "all", label: "All" }]}
      value={isAll ? "all" : "counted"}
      onChange={(value) =>
        navigate({
          search: ({ all: _, ...before }) => value === "all" ? { ...before, all: true } : before,
          replace: true,
        })}
    />
  );
  const skeleton = <Skeleton height={HEIGHT + 24} />;
  return (
    <Section title="Last 25 hours" right={explanation.unaccepted.length > 0 && choice}>
      <Suspense fallback={skeleton}>
        {data
          ? (
            <Plot
              title="Price, USD"
              unit="USD"
              series={PRICE_LINES}
              data={data}
              range={priceRange(data, isAll)}
              isLog={isAll}
              height={HEIGHT}
            />
          )
          : skeleton}
      </Suspense>
    </Section>
  );
}
