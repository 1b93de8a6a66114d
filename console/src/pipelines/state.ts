import type { OverviewItem } from "headwater-client";
import {
  CirclePause,
  CirclePlay,
  FileQuestion,
  OctagonAlert,
  PencilLine,
  RefreshCw,
  TriangleAlert,
  Undo2,
} from "lucide-react";

import { sum } from "../common/numbers.ts";
import type { Look } from "../common/StateBadge.tsx";

/** How a pipeline's state looks. */
export interface PipelineLook extends Look {
  /** The higher, the more it needs a person. */
  severity: number;
}

const LOOKS = {
  unreadable: { word: "Unreadable", color: "red", Icon: FileQuestion, severity: 6 },
  failing: { word: "Failing", color: "red", Icon: OctagonAlert, severity: 5 },
  rolledBack: { word: "Rolled back", color: "yellow", Icon: Undo2, severity: 4 },
  degraded: { word: "Degraded", color: "yellow", Icon: TriangleAlert, severity: 3 },
  rollingOut: { word: "Rolling out", color: "blue", Icon: RefreshCw, severity: 2 },
  deployed: { word: "Runs", color: "green", Icon: CirclePlay, severity: 1 },
  paused: { word: "Paused", color: "violet", Icon: CirclePause, severity: 0 },
  draft: { word: "Draft", color: "gray", Icon: PencilLine, severity: -1 },
} satisfies Record<string, PipelineLook>;

/** A share of errors in the last minutes above which a pipeline that runs is degraded. */
const DEGRADED_SHARE = 0.01;
const RECENT_MINUTES = 5;

export function lookOf(
  item: Pick<OverviewItem, "state" | "condition" | "errors" | "messages_received">,
): PipelineLook {
  if (item.state !== "deployed") return LOOKS[item.state];
  if (item.condition === "RollingOut") return LOOKS.rollingOut;
  if (item.condition === "RolledBack") return LOOKS.rolledBack;
  if (item.condition === "Failed") return LOOKS.failing;
  const errors = sum((item.errors ?? []).slice(-RECENT_MINUTES));
  const received = sum((item.messages_received ?? []).slice(-RECENT_MINUTES));
  return errors > received * DEGRADED_SHARE ? LOOKS.degraded : LOOKS.deployed;
}
