import type { TailRecord } from "headwater-client";
import { useCallback, useEffect, useRef, useState } from "react";

import { useHeadwater } from "../app/session.tsx";

/** The newest records that a tail keeps. */
export const MOST_RECORDS = 50_000;

export type TailState = "connecting" | "open" | "hidden" | "ended" | "failed";

/** A record of the page, with a number that no other one has. */
export type Row = TailRecord & { row: number };

/** What a tail has shown so far. */
export interface TailView {
  /** The oldest first. */
  rows: Row[];
  state: TailState;
  /** Why the tail has ended or failed, or why it connects again; empty otherwise. */
  reason: string;
  /** How many records the server has left out. */
  skipped: number;
  clear: () => void;
}

/** Shows the records that are appended to topics from now on. A hidden tab lets its connection go. */
export function useTail(topics: string[]): TailView {
  const hw = useHeadwater();
  const rows = useRef<Row[]>([]);
  const count = useRef(0);
  const [, draw] = useState(0);
  const [status, setStatus] = useState({ state: "connecting" as TailState, reason: "" });
  const [skipped, setSkipped] = useState(0);
  const key = topics.join(" ");

  const clear = useCallback(() => {
    rows.current = [];
    setSkipped(0);
    draw((before) => before + 1);
  }, []);

  useEffect(() => {
    let stop = new AbortController();
    const read = async () => {
      const { signal } = stop;
      try {
        for await (const event of hw.tailEvents(key.split(" "), { signal })) {
          if (event.kind === "open") setStatus({ state: "open", reason: "" });
          if (event.kind === "broken") {
            setStatus({ state: "connecting", reason: event.error.message });
          }
          if (event.kind === "end") {
            setStatus({ state: "ended", reason: event.end.detail ?? event.end.reason });
          }
          if (event.kind === "skipped") setSkipped((before) => before + event.skipped.count);
          if (event.kind !== "records") continue;
          for (const record of event.records) {
            rows.current.push({ ...record, row: count.current++ });
          }
          if (rows.current.length > MOST_RECORDS) rows.current = rows.current.slice(-MOST_RECORDS);
          draw((before) => before + 1);
        }
      } catch (error) {
        if (!signal.aborted) {
          setStatus({
            state: "failed",
            reason: error instanceof Error ? error.message : String(error),
          });
        }
      }
    };
    const onVisibility = () => {
      stop.abort();
      if (document.hidden) return setStatus({ state: "hidden", reason: "" });
      stop = new AbortController();
      setStatus({ state: "connecting", reason: "" });
      void read();
    };
    clear();
    onVisibility();
    document.addEventListener("visibilitychange", onVisibility);
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      stop.abort();
    };
  }, [hw, key, clear]);

  return { rows: rows.current, ...status, skipped, clear };
}
