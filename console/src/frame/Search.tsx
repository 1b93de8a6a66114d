import { Button, Kbd } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, spotlight } from "@mantine/spotlight";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Search as SearchIcon, Workflow } from "lucide-react";
import { useState } from "react";

import { useHeadwater } from "../app/session.tsx";
import { PAGES } from "./pages.ts";

const MOST = 8;

/** Finds pages and pipelines by their names. */
export function Search() {
  const hw = useHeadwater();
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [q] = useDebouncedValue(text.trim(), 150);
  const { data } = useQuery({
    queryKey: ["search", q],
    queryFn: ({ signal }) => hw.flows.overviewPage({ q, limit: MOST, signal }),
    enabled: q !== "",
    placeholderData: keepPreviousData,
  });
  const pages = PAGES.filter(({ label }) =>
    label.toLowerCase().includes(text.trim().toLowerCase())
  );
  const flows = q ? data?.items ?? [] : [];
  return (
    <>
      <Button
        variant="default"
        leftSection={<SearchIcon size={14} />}
        rightSection={<Kbd size="xs">⌘K</Kbd>}
        onClick={spotlight.open}
      >
        Search
      </Button>
      <Spotlight.Root query={text} onQueryChange={setText} shortcut={["mod + K", "/"]} scrollable>
        <Spotlight.Search
          placeholder="Pipelines and pages"
          leftSection={<SearchIcon size={16} />}
        />
        <Spotlight.ActionsList>
          {pages.map(({ to, label, Icon }) => (
            <Spotlight.Action
              key={to}
              label={label}
              leftSection={<Icon size={16} />}
              onClick={() => navigate({ to })}
            />
          ))}
          {flows.map((flow) => (
            <Spotlight.Action
              key={flow.id}
              label={flow.name}
              description={flow.tags.join(", ")}
              leftSection={<Workflow size={16} />}
              onClick={() => navigate({ to: "/pipelines/$id/overview", params: { id: flow.id } })}
            />
          ))}
          {pages.length + flows.length === 0 && (
            <Spotlight.Empty>Nothing has this name.</Spotlight.Empty>
          )}
        </Spotlight.ActionsList>
      </Spotlight.Root>
    </>
  );
}
