import type { Flow, TransformMetrics } from "headwater-client";

import { recentRate, sum } from "../../common/numbers.ts";

/** What a transform did in the last hour, and its rate in the last minutes. */
export interface TransformRates {
  receivedPerS: number;
  sentPerS: number;
  /** The share of the records that were dropped, 0 to 1; undefined without records. */
  dropShare: number | undefined;
  errors: number;
}

type Name = TransformMetrics["metrics"][number]["metric_type"];

const HOUR_MINUTES = 60;

/** Returns the rates of each transform by its uid. */
export function ratesOf(
  flow: Flow,
  metrics: TransformMetrics | null | undefined,
): Map<string, TransformRates> {
  const now = Date.now();
  const countsOf = (uid: string, name: Name): number[] => {
    const counts = new Array<number>(HOUR_MINUTES + 1).fill(0);
    const series = metrics?.metrics.find((each) =>
      each.transform_uid === uid && each.metric_type === name
    );
    for (const { timestamp, value } of series?.points ?? []) {
      const index = HOUR_MINUTES - Math.floor(now / 60_000) +
        Math.floor(Date.parse(timestamp) / 60_000);
      if (index >= 0 && index <= HOUR_MINUTES) counts[index] = value;
    }
    return counts;
  };
  return new Map((flow.pipeline.transforms ?? []).map(({ uid }) => {
    const [received, sent] = [countsOf(uid, "received"), countsOf(uid, "sent")];
    const [all, dropped] = [sum(received), sum(countsOf(uid, "dropped"))];
    return [uid, {
      receivedPerS: recentRate(received),
      sentPerS: recentRate(sent),
      dropShare: all > 0 ? dropped / all : undefined,
      errors: sum(countsOf(uid, "errors")),
    }];
  }));
}
