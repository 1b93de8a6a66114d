import { Button, Group, Stack, Text, Textarea } from "@mantine/core";
import { useMemo, useState } from "react";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { exact } from "../common/numbers.ts";
import { parsePasted } from "./parse.ts";
import { useWrite } from "./use_write.ts";
import type { ValueSource } from "./value_source.ts";

/** Adds or removes pasted values. It first shows their number, the duplicates, and the values that are too long. */
export function ManyValues({ source }: { source: ValueSource }) {
  const [text, setText] = useState("");
  const { values, duplicates, tooLong } = useMemo(() => parsePasted(text), [text]);
  const write = useWrite(source);
  const start = (kind: "add" | "remove") => () =>
    write.mutate({ kind, values }, { onSuccess: () => setText("") });
  return (
    <Stack gap="xs">
      <Textarea
        label="Paste many values"
        placeholder="Separated by lines, spaces, commas or semicolons"
        rows={4}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12 } }}
      />
      {text && (
        <Group gap="xs">
          <Text size="xs" c="dimmed">
            {exact(values.length)}{" "}
            values{duplicates > 0 && `, ${exact(duplicates)} duplicates left out`}
          </Text>
          {tooLong.length > 0 && (
            <Text size="xs" c="red">
              {tooLong.length} are longer than 1,024 characters: {tooLong[0]!.slice(0, 30)}…
            </Text>
          )}
          <Group gap="xs" ml="auto">
            <Button
              variant="default"
              disabled={values.length === 0}
              loading={write.isPending}
              onClick={start("remove")}
            >
              Remove {exact(values.length)}
            </Button>
            <Button disabled={values.length === 0} loading={write.isPending} onClick={start("add")}>
              Add {exact(values.length)}
            </Button>
          </Group>
        </Group>
      )}
      {write.error && <ErrorNotice error={write.error} />}
    </Stack>
  );
}
