import { Group, Table, Text } from "@mantine/core";
import type { OverviewItem } from "headwater-client";
import { memo } from "react";

import { Figure } from "../common/Figure.tsx";
import { LinkAnchor, LinkBadge } from "../common/links.tsx";
import { duration, recentRate, sum } from "../common/numbers.ts";
import { Sparkline } from "../common/Sparkline.tsx";
import { StateBadge } from "../common/StateBadge.tsx";
import { lookOf } from "./state.ts";

/** One pipeline in the list. */
export const PipelineRow = memo(function PipelineRow({ item }: { item: OverviewItem }) {
  const { messages_received: received, messages_sent: sent } = item;
  const errors = item.errors && sum(item.errors);
  return (
    <Table.Tr h={36}>
      <Table.Td>
        <StateBadge look={lookOf(item)} />
      </Table.Td>
      <Table.Td>
        <Group gap="xs" wrap="nowrap">
          <LinkAnchor
            to="/pipelines/$id/overview"
            params={{ id: item.id }}
            size="sm"
            fw={500}
            truncate
            maw={300}
            title={item.name}
          >
            {item.name}
          </LinkAnchor>
          {item.tags.map((tag) => (
            <LinkBadge
              key={tag}
              to="/pipelines"
              search={{ tag }}
              color="gray"
              size="sm"
              maw={120}
              flex="none"
              style={{ cursor: "pointer" }}
            >
              {tag}
            </LinkBadge>
          ))}
        </Group>
      </Table.Td>
      <Table.Td>
        <Rate counts={received} color="water" label="Records read in the last hour" />
      </Table.Td>
      <Table.Td>
        <Rate counts={sent} color="green" label="Records written in the last hour" />
      </Table.Td>
      <Table.Td ta="right">
        {errors
          ? (
            <LinkAnchor to="/pipelines/$id/dead-letters" params={{ id: item.id }} c="red" size="sm">
              <Figure value={errors} />
            </LinkAnchor>
          )
          : <Figure value={errors} />}
      </Table.Td>
      <Table.Td ta="right">
        <Text size="sm" {...(item.avg_data_age_ms === null ? { c: "dimmed" } : {})}>
          {item.avg_data_age_ms === null ? "–" : duration(item.avg_data_age_ms)}
        </Text>
      </Table.Td>
      <Table.Td ta="right">
        <Figure value={item.lag} />
      </Table.Td>
      <Table.Td ta="right">
        <Text size="sm" c="dimmed">{item.revision}</Text>
      </Table.Td>
    </Table.Tr>
  );
}, (one, other) => JSON.stringify(one.item) === JSON.stringify(other.item));

function Rate({ counts, color, label }: { counts: number[] | null; color: string; label: string }) {
  if (!counts) return <Text size="sm" c="dimmed" ta="right">–</Text>;
  return (
    <Group gap="xs" wrap="nowrap" justify="flex-end">
      <Figure value={recentRate(counts)} unit="/s" />
      <Sparkline values={counts} color={color} label={label} />
    </Group>
  );
}
