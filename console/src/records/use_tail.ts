import { useEffect, useRef, useState, useSyncExternalStore } from "react";

import { useHeadwater } from "../app/session.tsx";
import { textOf } from "../common/errors.ts";
import { TailBuffer } from "./tail_buffer.ts";

export type TailState = "connecting" | "open" | "hidden" | "ended" | "failed";

/** A tail as the page shows it. */
export interface Tail {
  buffer: TailBuffer;
  state: TailState;
  /** Why the tail has ended or failed, or why it connects again; empty otherwise. */
  reason: string;
}

/** Reasons for an end after which no connection is opened again. */
const FINAL_REASONS = ["deployment_ended", "topic_removed", "key_ended"];

/** Shows the records that are appended to topics from now on. A hidden tab closes its connection. */
export function useTail(topics: string[]): Tail {
  const hw = useHeadwater();
  const [buffer] = useState(() => new TailBuffer());
  const frame = useRef(0);
  const [status, setStatus] = useState({ state: "connecting" as TailState, reason: "" });
  const key = topics.join(" ");

  useEffect(() => {
    let stop = new AbortController();
    const showSoon = () => {
      frame.current ||= requestAnimationFrame(() => {
        frame.current = 0;
        if (buffer.advance()) showSoon();
      });
    };
    const read = async () => {
      const { signal } = stop;
      try {
        for await (const event of hw.tailEvents(key.split(" "), { signal })) {
          if (event.kind === "open") {
            buffer.onConnected();
            setStatus({ state: "open", reason: "" });
          } else if (event.kind === "broken") {
            setStatus({ state: "connecting", reason: textOf(event.error) });
          } else if (event.kind === "end") {
            const { reason, detail } = event.end;
            const state = FINAL_REASONS.includes(reason) ? "ended" : "connecting";
            setStatus({ state, reason: detail ?? reason });
          } else {
            if (event.kind === "records") buffer.add(event.records);
            else buffer.skip(event.skipped.count);
            showSoon();
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
    buffer.clear();
    onVisibility();
    document.addEventListener("visibilitychange", onVisibility);
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      stop.abort();
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, [hw, key, buffer]);

  return { buffer, ...status };
}

/** Renders a component again when the records of a tail change. */
export function useTailChanges(buffer: TailBuffer): void {
  useSyncExternalStore(buffer.subscribe, () => buffer.version);
}
