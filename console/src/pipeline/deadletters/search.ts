import type { LetterGroup } from "headwater-client";

/** Which dead letters are shown, as it is in the address of the page. */
export interface LettersSearch {
  error?: string;
  transform?: string;
  line?: number;
}

export function readLetters(search: Record<string, unknown>): LettersSearch {
  return {
    ...(typeof search["error"] === "string" ? { error: search["error"] } : {}),
    ...(search["transform"] === undefined ? {} : { transform: String(search["transform"]) }),
    ...(typeof search["line"] === "number" ? { line: search["line"] } : {}),
  };
}

export function isGroup(group: LetterGroup, { error, transform, line }: LettersSearch): boolean {
  return group.error === error && group.transform_uid === transform &&
    group.line === (line ?? null);
}

export function groupSearch(group: LetterGroup): LettersSearch {
  return {
    error: group.error,
    transform: group.transform_uid,
    ...(group.line === null ? {} : { line: group.line }),
  };
}
