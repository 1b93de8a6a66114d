import { Text, Tooltip } from "@mantine/core";

import { duration } from "./numbers.ts";
import { useNow } from "./use_now.ts";

/** The age of a time; the time in UTC is shown on hover. */
export function Age({ time, suffix = " ago" }: { time: string; suffix?: string }) {
  const now = useNow();
  return (
    <Tooltip label={time}>
      <Text span size="sm">{duration(Math.max(0, now - Date.parse(time)))}{suffix}</Text>
    </Tooltip>
  );
}
