import { Badge, Tooltip } from "@mantine/core";
import { CloudOff } from "lucide-react";

import { textOf } from "./errors.ts";
import { duration } from "./numbers.ts";
import { useNow } from "./use_now.ts";

/** Marks data that could not be refreshed; shows its age and the reason. */
export function Stale({ error, updatedAt }: { error: Error | null; updatedAt: number }) {
  const now = useNow();
  if (!error || !updatedAt) return null;
  return (
    <Tooltip label={textOf(error)}>
      <Badge color="yellow" leftSection={<CloudOff size={12} />}>
        {duration(Math.max(0, now - updatedAt))} old, reconnecting
      </Badge>
    </Tooltip>
  );
}
