import { Group, Table, Text, UnstyledButton } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { OverviewItem } from "headwater-client";
import { ArrowDown, ArrowUp } from "lucide-react";
import { useMemo } from "react";

import { TableBody } from "../common/TableBody.tsx";
import type { OverviewSearch, SortColumn } from "./overview_search.ts";
import { PipelineRow } from "./PipelineRow.tsx";
import { sorted } from "./sorting.ts";

const COLUMNS: { column: SortColumn; label: string; isFigure: boolean; width?: number }[] = [
  { column: "state", label: "State", isFigure: false, width: 130 },
  { column: "name", label: "Name", isFigure: false },
  { column: "in", label: "In", isFigure: true, width: 180 },
  { column: "out", label: "Out", isFigure: true, width: 180 },
  { column: "errors", label: "Errors, 1 h", isFigure: true, width: 100 },
  { column: "age", label: "Data age", isFigure: true, width: 90 },
  { column: "lag", label: "Lag", isFigure: true, width: 70 },
];

const ROW_HEIGHT = 36;

/** The list of pipelines. A click on a head sorts, a second one turns the order. */
export function PipelineTable(
  { items, search }: { items: OverviewItem[]; search: OverviewSearch },
) {
  const navigate = useNavigate({ from: "/pipelines" });
  const { sort = "state", desc = sort !== "name" } = search;
  const rows = useMemo(() => sorted(items, sort, desc), [items, sort, desc]);
  const sortBy = (column: SortColumn) =>
    navigate({
      search: (before) => ({
        ...before,
        sort: column,
        desc: column === sort ? !desc : column !== "name",
      }),
      replace: true,
    });
  return (
    <Table.ScrollContainer minWidth={900}>
      <Table layout="fixed">
        <Table.Thead>
          <Table.Tr>
            {COLUMNS.map(({ column, label, isFigure, width }) => (
              <Table.Th
                key={column}
                w={width}
                aria-sort={column === sort ? (desc ? "descending" : "ascending") : "none"}
              >
                <UnstyledButton onClick={() => sortBy(column)} fz="xs" fw={600} w="100%">
                  <Group gap={4} wrap="nowrap" justify={isFigure ? "flex-end" : "flex-start"}>
                    {label}
                    {column === sort && (desc ? <ArrowDown size={12} /> : <ArrowUp size={12} />)}
                  </Group>
                </UnstyledButton>
              </Table.Th>
            ))}
            <Table.Th w={80} ta="right">
              <Text size="xs" fw={600}>Revision</Text>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <TableBody
          items={rows}
          row={(item) => <PipelineRow key={item.id} item={item} />}
          rowHeight={ROW_HEIGHT}
        />
      </Table>
    </Table.ScrollContainer>
  );
}
