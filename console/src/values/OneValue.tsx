import { Badge, Button, Group, Stack, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { useWrite } from "./use_write.ts";
import type { ValueSource } from "./value_source.ts";

/** Checks a value as it is entered, and adds or removes it. */
export function OneValue({ source }: { source: ValueSource }) {
  const [text, setText] = useState("");
  const [value] = useDebouncedValue(text.trim(), 200);
  const write = useWrite(source);
  const { data: isMember, error } = useQuery({
    queryKey: [...source.key, "check", value],
    queryFn: ({ signal }) => source.set.check(value, { signal }),
    enabled: value !== "",
  });
  const problem = error ?? write.error;
  return (
    <Stack gap="xs">
      <Group gap="xs" align="flex-end" wrap="nowrap">
        <TextInput
          flex={1}
          label="Check, add or remove one value"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
        />
        <Button
          variant="default"
          disabled={!value || isMember !== false}
          loading={write.isPending}
          onClick={() => write.mutate({ kind: "add", values: [value] })}
        >
          Add
        </Button>
        <Button
          variant="default"
          disabled={!value || isMember !== true}
          loading={write.isPending}
          onClick={() => write.mutate({ kind: "remove", values: [value] })}
        >
          Remove
        </Button>
      </Group>
      {value && isMember !== undefined && (
        <Badge color={isMember ? "green" : "gray"}>
          {isMember ? "in the set" : "not in the set"}
        </Badge>
      )}
      {problem && <ErrorNotice error={problem} />}
    </Stack>
  );
}
