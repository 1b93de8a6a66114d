import type { OverviewItem } from "headwater-client";
import {
  CirclePause,
  CirclePlay,
  FileQuestion,
  type LucideIcon,
  OctagonAlert,
  PencilLine,
  RefreshCw,
  TriangleAlert,
  Undo2,
} from "lucide-react";

import { sum } from "../common/numbers.ts";

/** How a state looks. Each colour has one meaning, and is never shown without the word. */
export interface Look {
  word: string;
  color: string;
  Icon: LucideIcon;
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
} satisfies Record<string, Look>;

/** A share of errors in the last minutes above which a pipeline that runs is degraded. */
const DEGRADED_SHARE = 0.01;
const RECENT_MINUTES = 5;

export function lookOf(
  item: Pick<OverviewItem, "state" | "condition" | "errors" | "messages_received">,
): Look {
  if (item.state !== "deployed") return LOOKS[item.state];
  if (item.condition === "RollingOut") return LOOKS.rollingOut;
  if (item.condition === "RolledBack") return LOOKS.rolledBack;
  if (item.condition === "Failed") return LOOKS.failing;
  const errors = sum((item.errors ?? []).slice(-RECENT_MINUTES));
  const received = sum((item.messages_received ?? []).slice(-RECENT_MINUTES));
  return errors > received * DEGRADED_SHARE ? LOOKS.degraded : LOOKS.deployed;
}
