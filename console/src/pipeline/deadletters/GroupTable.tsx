import { Table, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { Flow, LetterGroup } from "headwater-client";

import { Age } from "../../common/Age.tsx";
import { Figure } from "../../common/Figure.tsx";
import { LinkAnchor } from "../../common/links.tsx";
import { nameOf } from "./names.ts";
import { groupSearch } from "./search.ts";

/** The groups of letters: the same error at the same line. */
export function GroupTable(
  { flow, groups, open }: { flow: Flow; groups: LetterGroup[]; open: LetterGroup },
) {
  const navigate = useNavigate({ from: "/pipelines/$id/dead-letters" });
  return (
    <Table.ScrollContainer minWidth={700}>
      <Table layout="fixed">
        <Table.Thead>
          <Table.Tr>
            <Table.Th fz="xs">Error</Table.Th>
            <Table.Th fz="xs">Where</Table.Th>
            <Table.Th fz="xs" ta="right" w={100}>Letters</Table.Th>
            <Table.Th fz="xs" ta="right" w={120}>First</Table.Th>
            <Table.Th fz="xs" ta="right" w={120}>Last</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {groups.map((group) => (
            <Table.Tr
              key={`${group.error} ${group.transform_uid} ${group.line}`}
              h={36}
              bg={group === open ? "var(--mantine-primary-color-light)" : ""}
              onClick={() => navigate({ search: groupSearch(group), replace: true })}
            >
              <Table.Td>
                <LinkAnchor
                  from="/pipelines/$id/dead-letters"
                  to="."
                  search={groupSearch(group)}
                  size="sm"
                  fw={500}
                  aria-current={group === open}
                >
                  {group.error}
                </LinkAnchor>
              </Table.Td>
              <Table.Td>
                <Text size="sm">
                  {nameOf(flow, group.transform_uid)}
                  {group.line !== null && `, line ${group.line}`}
                </Text>
              </Table.Td>
              <Table.Td ta="right">
                <Figure value={group.count} />
              </Table.Td>
              <Table.Td ta="right">
                <Age time={group.first} />
              </Table.Td>
              <Table.Td ta="right">
                <Age time={group.last} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
