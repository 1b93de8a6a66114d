import { Group, Pill, SegmentedControl } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

import { PageSearch } from "../common/PageSearch.tsx";
import { type OverviewSearch, type State } from "./overview_search.ts";

const CHOICES: { value: State | ""; label: string }[] = [
  { value: "", label: "All" },
  { value: "deployed", label: "Running" },
  { value: "failing", label: "Failing" },
  { value: "paused", label: "Paused" },
  { value: "draft", label: "Drafts" },
];

/** Which pipelines are shown; all of it is in the address. */
export function FilterChips({ search }: { search: OverviewSearch }) {
  const navigate = useNavigate({ from: "/pipelines" });
  const change = (members: Partial<Record<keyof OverviewSearch, unknown>>) =>
    navigate({ search: (before) => ({ ...before, ...members }) as OverviewSearch, replace: true });
  return (
    <Group gap="sm">
      <PageSearch
        label="Search by name or id"
        placeholder="Name or id"
        text={search.q ?? ""}
        change={(q) => change({ q: q || undefined })}
      />
      <SegmentedControl
        aria-label="State"
        data={CHOICES}
        value={search.state ?? ""}
        onChange={(state) => change({ state: state || undefined })}
      />
      {search.tag && (
        <Pill
          withRemoveButton
          onRemove={() => change({ tag: undefined })}
          removeButtonProps={{ "aria-label": "Remove the tag" }}
        >
          {search.tag}
        </Pill>
      )}
    </Group>
  );
}
