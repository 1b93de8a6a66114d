import { useQueryClient } from "@tanstack/react-query";
import type { OverviewItem } from "headwater-client";
import { useRef, useState } from "react";

import { useHeadwater } from "../../app/session.tsx";
import type { BulkAction } from "./actions.ts";

const AT_ONCE = 4;

/** How far the action is with one pipeline. */
export type Progress = "waits" | "runs" | "done" | "stopped" | Error;

/** Does something with each of several pipelines, some at a time. */
export function useBulk(action: BulkAction, items: OverviewItem[]) {
  const hw = useHeadwater();
  const queries = useQueryClient();
  const [progress, setProgress] = useState<ReadonlyMap<string, Progress>>(new Map());
  const [isRunning, setRunning] = useState(false);
  const isStopped = useRef(false);

  const set = (id: string, now: Progress) => setProgress((before) => new Map(before).set(id, now));
  const doNext = async (waiting: OverviewItem[]): Promise<void> => {
    const item = waiting.shift();
    if (!item) return;
    if (isStopped.current) {
      set(item.id, "stopped");
    } else {
      set(item.id, "runs");
      try {
        await action.work(await hw.flows.get(item.id));
        set(item.id, "done");
      } catch (error) {
        set(item.id, error as Error);
      }
    }
    return doNext(waiting);
  };
  const start = async () => {
    setRunning(true);
    setProgress(new Map(items.map(({ id }) => [id, "waits"])));
    const waiting = [...items];
    await Promise.all(Array.from({ length: AT_ONCE }, () => doNext(waiting)));
    setRunning(false);
    await queries.invalidateQueries({ queryKey: ["overview"] });
  };
  return { progress, isRunning, start, stop: () => isStopped.current = true };
}
