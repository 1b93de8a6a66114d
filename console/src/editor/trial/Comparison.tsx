import { Badge, Group, Tooltip } from "@mantine/core";
import type { Trial } from "headwater-client";

/** How the results differ from what runs. */
export function Comparison({ comparison }: { comparison: NonNullable<Trial["comparison"]> }) {
  const { same, changed, only_before, only_after } = comparison;
  const different = changed + only_before + only_after;
  const words = [
    changed && `${changed} with other outputs`,
    only_before && `${only_before} no longer sent`,
    only_after && `${only_after} newly sent`,
  ].filter(Boolean).join(", ");
  return (
    <Group gap="xs">
      <Tooltip
        label={different
          ? words
          : `All ${same} records have the same results as with the revision that runs.`}
      >
        <Badge color={different ? "yellow" : "gray"}>
          {different ? `${different} would change: ${words}` : "nothing would change"}
        </Badge>
      </Tooltip>
    </Group>
  );
}
