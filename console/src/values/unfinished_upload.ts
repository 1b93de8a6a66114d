import type { UploadTask } from "./use_upload.ts";
import type { ValueSource } from "./value_source.ts";

/** An upload that has not ended. It is kept for as long as the tab is open, so that a reload loses nothing. */
export interface UnfinishedUpload {
  kind: "add" | "remove";
  column: string;
  /** So many values from the beginning of the file are all stored. */
  complete: number;
  file: { name: string; size: number; lastModified: number };
}

export function unfinishedUpload(source: ValueSource): UnfinishedUpload | undefined {
  const text = sessionStorage.getItem(nameOf(source));
  return text === null ? undefined : JSON.parse(text);
}

/** Remembers how far an upload is. The file itself has to be chosen again: a page can't keep it. */
export function remember(
  source: ValueSource,
  { kind, column, file }: UploadTask,
  complete: number,
) {
  const { name, size, lastModified } = file;
  const upload = { kind, column, complete, file: { name, size, lastModified } };
  sessionStorage.setItem(nameOf(source), JSON.stringify(upload));
}

export function forget(source: ValueSource) {
  sessionStorage.removeItem(nameOf(source));
}

/** Returns whether a chosen file is the one of the upload, as far as a browser shows it. */
export function isSameFile(
  { file }: UnfinishedUpload,
  { name, size, lastModified }: File,
): boolean {
  return file.name === name && file.size === size && file.lastModified === lastModified;
}

function nameOf(source: ValueSource): string {
  return ["headwater-upload", ...source.key].join(":");
}
