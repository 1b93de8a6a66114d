import { Unprocessable } from "headwater-client";

import type { EditedDocument } from "../document.ts";
import type { TrialResult } from "./use_trial.ts";

/** Something that is wrong with the code of a transform. */
export interface CodeProblem {
  message: string;
  line: number | null;
  column: number | null;
  isWarning: boolean;
}

const MOST = 3;

/** Returns the problems of one transform: what the server refuses, what failed in the trial, and warnings. */
export function problemsOf(
  { data, error }: TrialResult,
  document: EditedDocument,
  key: string,
): CodeProblem[] {
  const on = document.transforms.filter(({ isOff }) => !isOff);
  if (error instanceof Unprocessable) {
    const pointer = `/pipeline_config/transforms/${on.findIndex((each) => each.key === key)}/`;
    return error.errors.filter((fault) => fault.pointer.startsWith(pointer)).map(({ detail }) =>
      placed(detail, false)
    );
  }
  const index = data?.transformKeys.indexOf(key) ?? -1;
  const pointer = `/pipeline_config/transforms/${index}/`;
  const groups = data?.records?.flatMap(({ steps }) => steps[index]?.errors ?? []) ?? [];
  const failures = groups.map(({ error: name, message, line, column }) => ({
    message: `${name}: ${message}`,
    line,
    column,
    isWarning: false,
  }));
  const warnings =
    data?.warnings.filter((fault) => fault.pointer.startsWith(pointer)).map(({ detail }) =>
      placed(detail, true)
    ) ?? [];
  const unique = new Map(
    [...failures, ...warnings].map((problem) => [`${problem.line} ${problem.message}`, problem]),
  );
  return [...unique.values()].slice(0, MOST);
}

function placed(message: string, isWarning: boolean): CodeProblem {
  const line = /line (\d+)/.exec(message)?.[1];
  const column = /column (\d+)/.exec(message)?.[1];
  return {
    message,
    line: line ? Number(line) : null,
    column: column ? Number(column) : null,
    isWarning,
  };
}
