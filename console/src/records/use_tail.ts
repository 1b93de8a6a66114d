import { useCallback, useEffect, useReducer, useRef, useState } from "react";

import { useHeadwater } from "../app/session.tsx";
import { textOf } from "../common/errors.ts";
import { type Row, TailBuffer } from "./tail_buffer.ts";

export type TailState = "connecting" | "open" | "hidden" | "ended" | "failed";

/** What a tail has shown so far. */
export interface TailView {
  /** The oldest first; the array grows and shrinks in place. */
  rows: Row[];
  state: TailState;
  /** Why the tail has ended or failed, or why it connects again; empty otherwise. */
  reason: string;
  /** How many records the server has left out. */
  skipped: number;
  /** How many records were appended while there was no connection. */
  missed: number;
  clear: () => void;
}

/** Reasons for an end after which no connection is opened again. */
const FINAL_REASONS = ["deployment_ended", "topic_removed", "key_ended"];

/** Shows the records that are appended to topics from now on. A hidden tab lets its connection go. */
export function useTail(topics: string[]): TailView {
  const hw = useHeadwater();
  const [buffer] = useState(() => new TailBuffer());
  const [, draw] = useReducer((times: number) => times + 1, 0);
  const frame = useRef(0);
  const [status, setStatus] = useState({ state: "connecting" as TailState, reason: "" });
  const key = topics.join(" ");

  const clear = useCallback(() => {
    buffer.clear();
    draw();
  }, [buffer]);

  useEffect(() => {
    let stop = new AbortController();
    const drawSoon = () => {
      frame.current ||= requestAnimationFrame(() => {
        frame.current = 0;
        draw();
      });
    };
    const read = async () => {
      const { signal } = stop;
      try {
        for await (const event of hw.tailEvents(key.split(" "), { signal })) {
          if (event.kind === "open") {
            buffer.resume();
            setStatus({ state: "open", reason: "" });
          } else if (event.kind === "broken") {
            setStatus({ state: "connecting", reason: textOf(event.error) });
          } else if (event.kind === "end") {
            const { reason, detail } = event.end;
            const state = FINAL_REASONS.includes(reason) ? "ended" : "connecting";
            setStatus({ state, reason: detail ?? reason });
          } else {
            if (event.kind === "records") buffer.add(event.records);
            else buffer.skipped += event.skipped.count;
            drawSoon();
          }
        }
      } catch (error) {
        if (signal.aborted) return;
        const reason = error instanceof Error ? textOf(error) : String(error);
        setStatus({ state: "failed", reason });
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
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, [hw, key, buffer, clear]);

  const { rows, skipped, missed } = buffer;
  return { rows, ...status, skipped, missed, clear };
}
