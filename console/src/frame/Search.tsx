import { Button, Kbd } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, spotlight } from "@mantine/spotlight";
import { Search as SearchIcon } from "lucide-react";
import { useState } from "react";

import { MOD_KEY } from "../common/mod_key.ts";
import { useResults } from "./use_results.ts";

/** Finds what has a name, from every page. */
export function Search() {
  const [text, setText] = useState("");
  const [q] = useDebouncedValue(text.trim(), 150);
  const groups = useResults(q);
  return (
    <>
      <Button
        variant="default"
        leftSection={<SearchIcon size={14} />}
        rightSection={<Kbd size="xs">{MOD_KEY}K</Kbd>}
        onClick={spotlight.open}
      >
        Search
      </Button>
      <Spotlight.Root
        query={text}
        onQueryChange={setText}
        shortcut="mod + K"
        tagsToIgnore={[]}
        scrollable
      >
        <Spotlight.Search
          placeholder="Pipelines, streams, datasets, tokens and pages"
          leftSection={<SearchIcon size={16} />}
        />
        <Spotlight.ActionsList>
          {groups.map(({ label, results }) => (
            <Spotlight.ActionsGroup key={label} label={label}>
              {results.map(({ key, Icon, open, ...shown }) => (
                <Spotlight.Action
                  key={key}
                  {...shown}
                  leftSection={<Icon size={16} />}
                  onClick={open}
                />
              ))}
            </Spotlight.ActionsGroup>
          ))}
          {groups.length === 0 && <Spotlight.Empty>Nothing has this name.</Spotlight.Empty>}
        </Spotlight.ActionsList>
      </Spotlight.Root>
    </>
  );
}
