import { useQueryClient } from "@tanstack/react-query";
import type { Upload } from "headwater-client";
import { useRef, useState } from "react";

import { type FileShape, valuesOf } from "./parse.ts";
import type { ValueSource } from "./value_source.ts";

/** What is done with the values of a file. */
export type UploadKind = "add" | "remove" | "replace";

/** How far an upload is. */
export interface UploadState {
  kind: UploadKind;
  /** The part of the file that was read, 0 to 1. */
  read: number;
  /** How many values the server has stored. */
  sent: number;
  changed: number;
  startedAt: number;
  isDone: boolean;
  error?: Error;
}

/** Sends the values of a file in parts. The file is never held in memory as a whole, but for `replace`. */
export function useUpload(source: ValueSource) {
  const queries = useQueryClient();
  const [state, setState] = useState<UploadState>();
  const stop = useRef<AbortController>(undefined);
  const update = (members: Partial<UploadState>) =>
    setState((before) => before && { ...before, ...members });

  const start = async (kind: UploadKind, file: File, shape: FileShape, column: string) => {
    stop.current = new AbortController();
    const { signal } = stop.current;
    setState({ kind, read: 0, sent: 0, changed: 0, startedAt: Date.now(), isDone: false });
    const values = valuesOf(file, shape, column, (bytes) => update({ read: bytes / file.size }));
    try {
      if (kind === "replace") {
        const { count } = await source.replace!(values, { signal, timeoutMs: 600_000 });
        update({ sent: count, changed: count, isDone: true });
      } else {
        const options = {
          signal,
          onProgress: ({ sent, changed }: Upload) => update({ sent, changed }),
        };
        await source.set[kind](values, options);
        update({ isDone: true });
      }
    } catch (error) {
      update({ isDone: true, error: error instanceof Error ? error : new Error(String(error)) });
    }
    await queries.invalidateQueries({ queryKey: source.key });
  };
  return {
    state,
    start,
    cancel: () =>
      stop.current?.abort(
        new Error(
          "You stopped the upload. What was stored so far stays; send the file again to go on.",
        ),
      ),
  };
}
