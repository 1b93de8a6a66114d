import type { LucideIcon } from "lucide-react";
import { memo } from "react";

/** How a state looks. Each colour has one meaning, and is never shown without the word. */
export interface Look {
  word: string;
  color: string;
  Icon: LucideIcon;
}

export const StateBadge = memo(
  function StateBadge({ look: { word, color, Icon } }: { look: Look }) {
    return (
      <span className={`plain-badge ${color}`}>
        <Icon size={12} />
        {word}
      </span>
    );
  },
);
