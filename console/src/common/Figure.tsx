import { Text, Tooltip } from "@mantine/core";

import { exact, short } from "./numbers.ts";

/** A number in its short form; the exact one is shown on hover. Without a value, a dash. */
export function Figure({ value, unit = "", muted = false }: {
  value: number | null | undefined;
  unit?: string;
  muted?: boolean;
}) {
  if (value === null || value === undefined) return <Text span size="sm" c="dimmed">–</Text>;
  return (
    <Tooltip label={`${exact(value)}${unit}`}>
      <Text span size="sm" {...(muted || value === 0 ? { c: "dimmed" } : {})}>
        {short(value)}
        {unit}
      </Text>
    </Tooltip>
  );
}
