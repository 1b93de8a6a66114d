import { Checkbox, Group, Table, Text } from "@mantine/core";
import type { OverviewItem } from "headwater-client";
import { memo } from "react";

import { Age } from "../common/Age.tsx";
import { Figure } from "../common/Figure.tsx";
import { LinkAnchor, LinkBadge } from "../common/links.tsx";
import { duration, recentRate, sum } from "../common/numbers.ts";
import { Sparkline } from "../common/Sparkline.tsx";
import { StateBadge } from "../common/StateBadge.tsx";
import { lookOf } from "./state.ts";

interface Props {
  item: OverviewItem;
  height: number;
  isSelected: boolean;
  select: (id: string, isSelected: boolean) => void;
}

/** One pipeline in the list. A refresh keeps the objects of pipelines that have not changed. */
export const PipelineRow = memo(function PipelineRow({ item, height, isSelected, select }: Props) {
  const { messages_received: received, messages_sent: sent, source } = item;
  const errors = item.errors && sum(item.errors);
  return (
    <Table.Tr h={height} bg={isSelected ? "var(--mantine-primary-color-light)" : ""}>
      <Table.Td>
        <Checkbox
          size="xs"
          aria-label={`Select ${item.name}`}
          checked={isSelected}
          onChange={(event) => select(item.id, event.currentTarget.checked)}
        />
      </Table.Td>
      <Table.Td>
        <StateBadge look={lookOf(item)} />
      </Table.Td>
      <Table.Td>
        <LinkAnchor
          to="/pipelines/$id/overview"
          params={{ id: item.id }}
          size="sm"
          fw={500}
          display="block"
          truncate
          title={item.name}
        >
          {item.name}
        </LinkAnchor>
        {item.tags.length > 0 && (
          <Group gap={4} mt={2} wrap="nowrap" style={{ overflow: "hidden" }}>
            {item.tags.map((tag) => (
              <LinkBadge
                key={tag}
                to="/pipelines"
                search={{ tag }}
                color="gray"
                size="sm"
                maw={160}
                flex="none"
                style={{ cursor: "pointer" }}
              >
                {tag}
              </LinkBadge>
            ))}
          </Group>
        )}
      </Table.Td>
      <Table.Td>
        {source
          ? (
            <Text size="sm" truncate title={`${source.chain} ${source.entity}`}>
              {source.chain} {source.entity}
            </Text>
          )
          : <Text size="sm" c="dimmed">–</Text>}
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
      <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>
        <Text span size="sm">{item.revision}</Text>{" "}
        <Text span c="dimmed">
          <Age time={item.updated_at} />
        </Text>
      </Table.Td>
    </Table.Tr>
  );
});

function Rate({ counts, color, label }: { counts: number[] | null; color: string; label: string }) {
  if (!counts) return <Text size="sm" c="dimmed" ta="right">–</Text>;
  return (
    <Group gap={6} wrap="nowrap" justify="flex-end">
      <Figure value={recentRate(counts)} unit="/s" />
      <Sparkline values={counts} color={color} label={label} width={48} />
    </Group>
  );
}
