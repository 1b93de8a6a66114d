import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { Flow, Trial } from "headwater-client";

import { useHeadwater } from "../../app/session.tsx";
import { bodyOf, type EditedDocument } from "../document.ts";

const AFTER_MS = 300;
const RECORDS = 20;

export type TrialResult = UseQueryResult<Trial>;

/** Runs the stream's last records through the document, 300 ms after the last change. Older runs are cancelled. */
export function useTrial(flow: Flow, document: EditedDocument, isDeployed: boolean): TrialResult {
  const hw = useHeadwater();
  const body = bodyOf(flow, document, document.transforms.filter(({ isOff }) => !isOff));
  const [text] = useDebouncedValue(JSON.stringify(body), AFTER_MS);
  return useQuery({
    queryKey: ["trial", flow.id, flow.revision, isDeployed, text],
    queryFn: ({ signal }) =>
      hw.flows.validate(JSON.parse(text), {
        id: flow.id,
        sample: { last: RECORDS },
        ...(isDeployed ? { against: "deployed" as const } : {}),
        signal,
      }),
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 30_000,
    gcTime: 60_000,
  });
}
