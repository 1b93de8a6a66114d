import { Text, Tooltip } from "@mantine/core";

import { percent } from "../common/numbers.ts";

/** The change of a price in percent; a dash without a price at the beginning of the window. */
export function Change({ percentage }: { percentage: number | null }) {
  if (percentage !== null) return <Text span size="sm">{percent(percentage)}</Text>;
  return (
    <Tooltip label="There was no price at the beginning of this time.">
      <Text span size="sm" c="dimmed">–</Text>
    </Tooltip>
  );
}
