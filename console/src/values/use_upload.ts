import { useQueryClient } from "@tanstack/react-query";
import type { Upload } from "headwater-client";
import { useEffect, useRef, useState } from "react";

import { Gate } from "./gate.ts";
import { type FileShape, valuesOf } from "./parse.ts";
import { requestFile } from "./request_file.ts";
import { removeUnfinishedUpload, saveUnfinishedUpload } from "./unfinished_upload.ts";
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

/** The progress of an upload. */
export interface UploadState {
  task: UploadTask;
  phase: "reading" | "sending" | "paused" | "done" | "failed";
  /** The share that is done, 0 to 1. */
  share: number;
  /** How many values the server has processed, for earlier attempts too. */
  sent: number;
  /** How many values were new or were removed, since the upload was started or resumed. */
  changed: number;
  /** How many values at the beginning of the file the server has processed without a gap. An upload resumes after them. */
  completeCount: number;
  /** How many values earlier attempts have sent; 0 for an upload that was not resumed. */
  sentBefore: number;
  startedAt: number;
  /** How many values were left out because they are too long. */
  tooLong: number;
  error?: Error;
}

/** The error of an upload that the user has stopped. */
export class Stopped extends Error {}

const STOPPED: Record<UploadKind, string> = {
  add: "You stopped the upload. Values that were sent before are added.",
  remove: "You stopped the upload. Values that were sent before are removed.",
  replace: "You stopped the upload before it was sent. The set is unchanged.",
};
const NO_VALUES = "The file has no values in this column, so the set is unchanged.";
const REPLACE_TIMEOUT_MS = 3_600_000;
const PROGRESS_STEPS = 200;

/** Sends the values of a file, which is read as a stream. */
export function useUpload(source: ValueSource) {
  const queries = useQueryClient();
  const [state, setState] = useState<UploadState>();
  const [gate] = useState(() => new Gate());
  const stop = useRef<AbortController>(undefined);
  const update = (members: Partial<UploadState>) =>
    setState((before) => before && { ...before, ...members });
  const cancel = (kind: UploadKind) => {
    stop.current?.abort(new Stopped(STOPPED[kind]));
    gate.open();
  };
  useEffect(() => () => cancel("add"), []);

  const start = async (task: UploadTask, from = 0) => {
    stop.current = new AbortController();
    const { signal } = stop.current;
    if (from === 0 && task.kind !== "replace") removeUnfinishedUpload(source);
    setState({
      task,
      phase: task.kind === "replace" ? "reading" : "sending",
      share: 0,
      sent: from,
      changed: 0,
      completeCount: from,
      sentBefore: from,
      startedAt: Date.now(),
      tooLong: 0,
    });
    try {
      await (task.kind === "replace"
        ? replace(source, task, gate, signal, update)
        : change(source, task, task.kind, gate, signal, from, update));
      removeUnfinishedUpload(source);
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
    /** Forgets an upload that has ended. */
    reset: () => setState(undefined),
    pause: () => {
      gate.close();
      update({ phase: "paused" });
    },
    resume: () => {
      gate.open();
      update({ phase: state?.task.kind === "replace" ? "reading" : "sending" });
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
  let [seen, tooLong] = [0, 0];
  const reading = { bytes: 0, onTooLong: () => update({ tooLong: ++tooLong }) };
  const values = async function* () {
    for await (const value of valuesOf(file, shape, column, reading)) {
      if (++seen > from) yield value;
    }
  };
  await source.set[kind](gate.pass(values(), signal), {
    signal,
    onProgress: ({ sent, changed, complete }: Upload) => {
      if (from + complete > 0) saveUnfinishedUpload(source, task, from + complete);
      update({
        sent: from + sent,
        changed,
        completeCount: from + complete,
        share: (from + sent) / Math.max(seen * file.size / reading.bytes, from + sent),
      });
    },
  });
}

/**
 * Replaces all values. The body of the request is written to a file first, because a browser sends only a body whose
 * size it knows. Where there are no such files, the whole body is held in memory.
 */
async function replace(
  source: ValueSource,
  { file, shape, column }: UploadTask,
  gate: Gate,
  signal: AbortSignal,
  update: Update,
): Promise<void> {
  let [seen, step, tooLong] = [0, 0, 0];
  const reading = { bytes: 0, onTooLong: () => update({ tooLong: ++tooLong }) };
  const values = async function* () {
    for await (const value of gate.pass(valuesOf(file, shape, column, reading), signal)) {
      seen += 1;
      const reached = Math.floor(reading.bytes / file.size * PROGRESS_STEPS);
      if (reached > step) update({ share: reached / PROGRESS_STEPS });
      step = reached;
      yield value;
    }
    if (seen === 0) throw new Error(NO_VALUES);
  };
  const written = await requestFile(values());
  update({ phase: "sending", share: 1 });
  try {
    const options = { signal, timeoutMs: REPLACE_TIMEOUT_MS };
    const { count } = await source.replace!(written?.body ?? values(), options);
    update({ sent: count, changed: count });
  } finally {
    await written?.remove();
  }
}
