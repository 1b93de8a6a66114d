import { Group, Text } from "@mantine/core";
import type { PricedToken } from "headwater-client";

import { StateBadge } from "../common/StateBadge.tsx";
import { useNow } from "../common/use_now.ts";
import { lookOf, sentenceOf } from "./token_status.ts";

/** The status of a price, and what is wrong with it. */
export function Status({ token }: { token: PricedToken }) {
  const sentence = sentenceOf(token, useNow());
  return (
    <Group gap="xs" wrap="nowrap">
      <StateBadge look={lookOf(token.status)} />
      {sentence && <Text size="xs" lh={1.3}>{sentence}</Text>}
    </Group>
  );
}
