import { Badge } from "@mantine/core";

import type { Look } from "../pipelines/state.ts";

export function StateBadge({ look: { word, color, Icon } }: { look: Look }) {
  return <Badge color={color} leftSection={<Icon size={12} />}>{word}</Badge>;
}
