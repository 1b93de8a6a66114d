import { Skeleton } from "@mantine/core";
import type { PriceExplanation } from "headwater-client";
import { Suspense, useMemo } from "react";

import { lazyPart } from "../common/lazy_part.ts";
import { PRICE_LINES, priceData, priceRange } from "./price_data.ts";
import { useHistory } from "./use_tokens.ts";

const Plot = lazyPart(() => import("../common/plot/Plot.tsx"));
const HEIGHT = 220;

/** The prices of the last 25 hours: a line of those that count, and dots of those that do not. */
export function PricePlot({ chain, address, explanation }: {
  chain: string;
  address: string;
  explanation: PriceExplanation;
}) {
  const { data: history } = useHistory(chain, address);
  const data = useMemo(
    () => history && priceData(history, explanation, Date.now()),
    [history, explanation],
  );
  if (!data) return <Skeleton height={HEIGHT + 24} />;
  return (
    <Suspense fallback={<Skeleton height={HEIGHT + 24} />}>
      <Plot
        title="Price, USD"
        unit="USD"
        series={PRICE_LINES}
        data={data}
        range={priceRange(data)}
        height={HEIGHT}
      />
    </Suspense>
  );
}
