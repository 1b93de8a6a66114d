import { Badge, Table, Text, UnstyledButton } from "@mantine/core";
import type { Revision } from "headwater-client";

import { Age } from "../../common/Age.tsx";

const COLORS: Record<string, string> = {
  Stable: "green",
  RollingOut: "blue",
  RolledBack: "yellow",
  Failed: "red",
};

/** The revisions, newest first. */
export function RevisionTable({ revisions, open, select }: {
  revisions: Revision[];
  open: number;
  select: (revision: number) => void;
}) {
  return (
    <Table>
      <Table.Thead>
        <Table.Tr>
          <Table.Th fz="xs">Revision</Table.Th>
          <Table.Th fz="xs">Changed</Table.Th>
          <Table.Th fz="xs">Saved</Table.Th>
          <Table.Th fz="xs">Deployed</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {revisions.map((each) => (
          <Table.Tr
            key={each.revision}
            h={36}
            onClick={() => select(each.revision)}
            bg={each.revision === open ? "var(--mantine-primary-color-light)" : ""}
            aria-current={each.revision === open}
          >
            <Table.Td>
              <UnstyledButton fz="sm" fw={500} onClick={() => select(each.revision)}>
                {each.revision}
              </UnstyledButton>
            </Table.Td>
            <Table.Td>
              <Text size="sm">
                {each.changed.join(", ") || (each.revision === 1 ? "created" : "nothing")}
              </Text>
            </Table.Td>
            <Table.Td>
              <Age time={each.saved_at} />
              <Text size="xs" c="dimmed">{each.saved_by}</Text>
            </Table.Td>
            <Table.Td>
              {each.condition && (
                <Badge color={COLORS[each.condition] ?? "gray"}>{each.condition}</Badge>
              )}
              {each.deployed_at && (
                <Text size="xs" c="dimmed">
                  <Age time={each.deployed_at} />
                </Text>
              )}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
