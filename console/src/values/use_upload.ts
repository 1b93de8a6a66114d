import { useQueryClient } from "@tanstack/react-query";
import type { Upload } from "headwater-client";
import { useEffect, useRef, useState } from "react";

import { Gate } from "./gate.ts";
import { type FileShape, valuesOf } from "./parse.ts";
import { requestFile } from "./request_file.ts";
import { forget, remember } from "./unfinished_upload.ts";
import type { ValueSource } from "./value_source.ts";

/** What is done with the values of a file. */
export type UploadKind = "add" | "remove" | "replace";

/** The values of one column of a file, and what is done with them. */
export interface UploadTask {
  kind: UploadKind;
  file: File;
  shape: FileShape;
  column: string;
}

/** How far an upload is. */
export interface UploadState {
  task: UploadTask;
  phase: "reads" | "sends" | "paused" | "done" | "failed";
  /** The share that is done, 0 to 1. */
  share: number;
  /** How many values the server has stored. */
  sent: number;
  changed: number;
  /** So many values from the beginning are all stored: an upload that failed goes on there. */
  complete: number;
  startedAt: number;
  error?: Error;
}

const STOPPED: Record<UploadKind, string> = {
  add: "You stopped the upload. What was added so far stays.",
  remove: "You stopped the upload. What was removed so far stays removed.",
  replace: "You stopped the upload. The set is unchanged.",
};
const REPLACE_TIMEOUT_MS = 3_600_000;
const PROGRESS_STEPS = 200;

/** Sends the values of a file. It is read as a stream, and never held in memory as a whole. */
export function useUpload(source: ValueSource) {
  const queries = useQueryClient();
  const [state, setState] = useState<UploadState>();
  const [gate] = useState(() => new Gate());
  const stop = useRef<AbortController>(undefined);
  const update = (members: Partial<UploadState>) =>
    setState((before) => before && { ...before, ...members });
  const cancel = (kind: UploadKind) => {
    stop.current?.abort(new Error(STOPPED[kind]));
    gate.open();
  };
  useEffect(() => () => cancel("add"), []);

  const start = async (task: UploadTask, from = 0) => {
    stop.current = new AbortController();
    const { signal } = stop.current;
    if (from === 0) forget(source);
    setState({
      task,
      phase: task.kind === "replace" ? "reads" : "sends",
      share: 0,
      sent: from,
      changed: 0,
      complete: from,
      startedAt: Date.now(),
    });
    try {
      await (task.kind === "replace"
        ? replace(source, task, gate, signal, update)
        : change(source, task, task.kind, gate, signal, from, update));
      forget(source);
      update({ phase: "done", share: 1 });
    } catch (error) {
      update({ phase: "failed", error: error instanceof Error ? error : new Error(String(error)) });
    }
    await queries.invalidateQueries({ queryKey: source.key });
  };
  return {
    state,
    start,
    cancel: () => state && cancel(state.task.kind),
    pause: () => {
      gate.close();
      update({ phase: "paused" });
    },
    resume: () => {
      gate.open();
      update({ phase: state?.task.kind === "replace" ? "reads" : "sends" });
    },
  };
}

type Update = (members: Partial<UploadState>) => void;

/** Adds or removes the values in parts. */
async function change(
  source: ValueSource,
  task: UploadTask,
  kind: "add" | "remove",
  gate: Gate,
  signal: AbortSignal,
  from: number,
  update: Update,
): Promise<void> {
  const { file, shape, column } = task;
  let [bytes, seen] = [0, 0];
  const values = async function* () {
    for await (const value of valuesOf(file, shape, column, (read) => bytes = read)) {
      if (++seen > from) yield value;
    }
  };
  await source.set[kind](gate.pass(values(), signal), {
    signal,
    onProgress: ({ sent, changed, complete }: Upload) => {
      if (from + complete > 0) remember(source, task, from + complete);
      update({
        sent: from + sent,
        changed,
        complete: from + complete,
        share: (from + sent) / Math.max(seen * file.size / bytes, from + sent),
      });
    },
  });
}

/** Replaces all values: the body is written to a file first, because a browser sends only what has a size. */
async function replace(
  source: ValueSource,
  { file, shape, column }: UploadTask,
  gate: Gate,
  signal: AbortSignal,
  update: Update,
): Promise<void> {
  let step = 0;
  const onBytes = (bytes: number) => {
    const reached = Math.floor(bytes / file.size * PROGRESS_STEPS);
    if (reached > step) update({ share: reached / PROGRESS_STEPS });
    step = reached;
  };
  const values = gate.pass(valuesOf(file, shape, column, onBytes), signal);
  const written = await requestFile(values);
  update({ phase: "sends", share: 1 });
  try {
    const options = { signal, timeoutMs: REPLACE_TIMEOUT_MS };
    const { count } = await source.replace!(written?.body ?? values, options);
    update({ sent: count, changed: count });
  } finally {
    await written?.remove();
  }
}
