import { Button, Code, Stack, Text } from "@mantine/core";
import { stringifyJson } from "headwater-client";
import { memo, useState } from "react";

/** More characters than this are shown on demand. */
const MOST_CHARACTERS = 20_000;
const TOKEN =
  /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A JSON value with coloured texts, numbers and names. Its content is never read as markup. */
export const JsonView = memo(function JsonView({ value }: { value: unknown }) {
  const [isWhole, setWhole] = useState(false);
  const text = value === undefined ? "" : stringifyJson(value, 2);
  const shown = isWhole ? text : text.slice(0, MOST_CHARACTERS);
  return (
    <Stack gap="xs">
      <Code block fz="xs" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
        {coloured(shown)}
      </Code>
      {shown.length < text.length && (
        <Button variant="subtle" onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString("en-US")} characters
        </Button>
      )}
    </Stack>
  );
});

function coloured(text: string) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [token, quoted, colon] = match;
    const color = quoted ? (colon ? "water" : "green") : "orange";
    parts.push(text.slice(end, match.index));
    parts.push(
      <Text key={match.index} span inherit c={`var(--mantine-color-${color}-text)`}>
        {quoted ?? token}
      </Text>,
    );
    if (colon) parts.push(colon);
    end = match.index + token.length;
  }
  return [...parts, text.slice(end)];
}
