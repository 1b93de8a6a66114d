import type { UploadTask } from "./use_upload.ts";
import type { ValueSource } from "./value_source.ts";

/**
 * The position of an upload that has not finished. The tab's session storage keeps it, so that the upload can be resumed
 * after a reload, or when the user comes back to the page.
 */
export interface UnfinishedUpload {
  kind: "add" | "remove";
  column: string;
  /** How many values at the beginning of the file the server has processed. */
  complete: number;
  file: { name: string; size: number; lastModified: number };
}

export function loadUnfinishedUpload(source: ValueSource): UnfinishedUpload | undefined {
  const text = sessionStorage.getItem(storageKey(source));
  return text === null ? undefined : JSON.parse(text);
}

/**
 * Saves the position of an upload. After a reload the user chooses the file again, because a reloaded
 * page has lost access to it.
 */
export function saveUnfinishedUpload(
  source: ValueSource,
  { kind, column, file }: UploadTask,
  complete: number,
) {
  const { name, size, lastModified } = file;
  const upload = { kind, column, complete, file: { name, size, lastModified } };
  sessionStorage.setItem(storageKey(source), JSON.stringify(upload));
}

export function removeUnfinishedUpload(source: ValueSource) {
  sessionStorage.removeItem(storageKey(source));
}

/** Returns whether a file has the name, size and modification time of the uploaded file. */
export function isSameFile(
  { file }: UnfinishedUpload,
  { name, size, lastModified }: File,
): boolean {
  return file.name === name && file.size === size && file.lastModified === lastModified;
}

function storageKey(source: ValueSource): string {
  return ["headwater-upload", ...source.key].join(":");
}
