import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { DeadLetter, Flow, Trial } from "headwater-client";

import { useHeadwater } from "../../app/session.tsx";
import { bodyOf, type EditedDocument } from "../document.ts";
import type { EditSearch } from "../search.ts";

const AFTER_MS = 300;
const RECORDS = 20;

/** A trial, and the keys of the transforms that it has run, in their order. */
export interface KeyedTrial extends Trial {
  transformKeys: string[];
}

export type TrialResult = UseQueryResult<KeyedTrial>;

/** Runs the stream's last records through the document, 300 ms after the last change. Older runs are cancelled. */
export function useTrial(
  flow: Flow,
  document: EditedDocument,
  isDeployed: boolean,
  search: EditSearch,
): TrialResult {
  const hw = useHeadwater();
  const on = document.transforms.filter(({ isOff }) => !isOff);
  const tried = { body: bodyOf(flow, document, on), transformKeys: on.map(({ key }) => key) };
  const [text] = useDebouncedValue(JSON.stringify(tried), AFTER_MS);
  return useQuery({
    queryKey: ["trial", flow.id, flow.revision, isDeployed, search, text],
    queryFn: async ({ signal }) => {
      const letters = await lettersOf(flow, search, signal);
      const { body, transformKeys } = JSON.parse(text);
      const trial = await hw.flows.validate(body, {
        id: flow.id,
        ...(letters
          ? { records: letters.map(({ record }) => record) }
          : { sample: { last: RECORDS } }),
        ...(isDeployed ? { against: "deployed" as const } : {}),
        signal,
      });
      return { ...(letters ? withInputs(trial, letters) : trial), transformKeys };
    },
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 30_000,
    gcTime: 60_000,
  });
}

/** Returns the dead letters that are tried; undefined when the stream's last records are. */
async function lettersOf(
  flow: Flow,
  { error, transform }: EditSearch,
  signal: AbortSignal,
): Promise<DeadLetter[] | undefined> {
  if (!error) return undefined;
  return (await flow.deadLetters.page({ error, transform, limit: RECORDS, signal })).items;
}

/** Returns the trial with the letters as the inputs of its records, as a trial of the stream has them. */
function withInputs(trial: Trial, letters: DeadLetter[]): Trial {
  const records = (trial.records ?? []).map((result, index) => {
    const { id, record, time } = letters[index]!;
    const [partition, offset] = id.split("/").map(Number);
    return {
      ...result,
      input: { record, timestamp: time, partition: partition!, offset: offset! },
    };
  });
  return { ...trial, records };
}
