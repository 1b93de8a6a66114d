import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { CircleDollarSign, Database, type LucideIcon, Waves, Workflow } from "lucide-react";

import { useHeadwater } from "../app/session.tsx";
import { middle } from "../common/numbers.ts";
import { PAGES } from "./pages.ts";

const MOST = 5;

/** What the search has found, and what opens it. */
export interface Result {
  key: string;
  label: string;
  description?: string;
  Icon: LucideIcon;
  open: () => void;
}

/** Finds pages, pipelines, streams, datasets and tokens with prices. Without a text, it finds the pages. */
export function useResults(q: string): { label: string; results: Result[] }[] {
  const hw = useHeadwater();
  const navigate = useNavigate();
  const options = { enabled: q !== "", placeholderData: keepPreviousData, retry: false } as const;
  const { data: flows } = useQuery({
    queryKey: ["search", "pipelines", q],
    queryFn: ({ signal }) => hw.flows.overviewPage({ q, limit: MOST, signal }),
    ...options,
  });
  const { data: streams } = useQuery({
    queryKey: ["streams"],
    queryFn: ({ signal }) => hw.streams.list({ signal }),
    staleTime: Infinity,
    ...options,
  });
  const { data: datasets } = useQuery({
    queryKey: ["datasets"],
    queryFn: ({ signal }) => Array.fromAsync(hw.datasets.list({ signal }), ({ info }) => info),
    ...options,
  });
  const { data: tokens } = useQuery({
    queryKey: ["search", "tokens", q],
    queryFn: ({ signal }) => hw.prices.tokensPage({ q, limit: MOST, signal }),
    ...options,
  });
  const matches = (text: string) => text.toLowerCase().includes(q.toLowerCase());
  const groups = [
    {
      label: "Pages",
      results: PAGES.filter(({ label }) => matches(label)).map(({ to, label, Icon }): Result => ({
        key: to,
        label,
        Icon,
        open: () => navigate({ to }),
      })),
    },
    {
      label: "Pipelines",
      results: (flows?.items ?? []).map(({ id, name, tags }): Result => ({
        key: id,
        label: name,
        description: tags.join(", "),
        Icon: Workflow,
        open: () => navigate({ to: "/pipelines/$id/overview", params: { id } }),
      })),
    },
    {
      label: "Streams",
      results: (streams ?? []).filter(({ chain, entity }) => matches(`${chain} ${entity}`))
        .slice(0, MOST).map(({ chain, entity, description }): Result => ({
          key: `${chain} ${entity}`,
          label: `${chain} ${entity}`,
          description,
          Icon: Waves,
          open: () => navigate({ to: "/streams/$chain/$entity", params: { chain, entity } }),
        })),
    },
    {
      label: "Datasets",
      results: (datasets ?? []).filter(({ name, id }) => matches(name) || matches(id))
        .slice(0, MOST).map(({ id, name }): Result => ({
          key: id,
          label: name,
          Icon: Database,
          open: () => navigate({ to: "/datasets/$id", params: { id } }),
        })),
    },
    {
      label: "Prices",
      results: (tokens?.items ?? []).map(({ chain, token_address: address }): Result => ({
        key: `${chain}:${address}`,
        label: middle(address),
        description: `${address} on ${chain}`,
        Icon: CircleDollarSign,
        open: () => navigate({ to: "/prices/$chain/$address", params: { chain, address } }),
      })),
    },
  ];
  return groups.filter(({ label, results }) =>
    results.length > 0 && (q !== "" || label === "Pages")
  );
}
