import { Badge } from "@mantine/core";
import type { LucideIcon } from "lucide-react";

/** How a state looks. Each colour has one meaning, and is never shown without the word. */
export interface Look {
  word: string;
  color: string;
  Icon: LucideIcon;
}

export function StateBadge({ look: { word, color, Icon } }: { look: Look }) {
  return <Badge color={color} flex="none" leftSection={<Icon size={12} />}>{word}</Badge>;
}
