import "./pipeline_table.css";

import { Checkbox, Group, Table, UnstyledButton } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { OverviewItem } from "headwater-client";
import { ArrowDown, ArrowUp } from "lucide-react";
import { type Dispatch, type SetStateAction, useCallback, useMemo } from "react";

import { TableBody } from "../common/TableBody.tsx";
import { isText, type OverviewSearch, type SortColumn } from "./overview_search.ts";
import { PipelineRow } from "./PipelineRow.tsx";
import { sorted } from "./sorting.ts";

const COLUMNS: { column: SortColumn; label: string; width?: number }[] = [
  { column: "state", label: "State", width: 118 },
  { column: "name", label: "Name" },
  { column: "source", label: "Source", width: 200 },
  { column: "in", label: "In", width: 116 },
  { column: "out", label: "Out", width: 116 },
  { column: "errors", label: "Errors 1 h", width: 84 },
  { column: "age", label: "Data age", width: 78 },
  { column: "lag", label: "Lag", width: 54 },
  { column: "revision", label: "Revision", width: 104 },
];

const HEIGHT = 36;
/** All rows are higher when one of them has tags, since rows have equal heights. */
const HEIGHT_WITH_TAGS = 52;

/** The list of pipelines. A click on a head sorts, a second one turns the order. */
export function PipelineTable({ items, search, selected, setSelected }: {
  items: OverviewItem[];
  search: OverviewSearch;
  selected: ReadonlySet<string>;
  setSelected: Dispatch<SetStateAction<ReadonlySet<string>>>;
}) {
  const navigate = useNavigate({ from: "/pipelines" });
  const { sort = "state", desc = !isText(sort) } = search;
  const rows = useMemo(() => sorted(items, sort, desc), [items, sort, desc]);
  const height = items.some(({ tags }) => tags.length > 0) ? HEIGHT_WITH_TAGS : HEIGHT;
  const sortBy = (column: SortColumn) =>
    navigate({
      search: (before) => ({
        ...before,
        sort: column,
        desc: column === sort ? !desc : !isText(column),
      }),
      replace: true,
    });
  const select = useCallback(
    (id: string, isSelected: boolean) =>
      setSelected((before) => {
        const after = new Set(before);
        if (isSelected) after.add(id);
        else after.delete(id);
        return after;
      }),
    [setSelected],
  );
  const count = items.filter(({ id }) => selected.has(id)).length;
  return (
    <Table.ScrollContainer minWidth={1060}>
      <Table className="pipeline-table" layout="fixed" horizontalSpacing={8}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={32}>
              <Checkbox
                size="xs"
                aria-label="Select all"
                checked={count === items.length}
                indeterminate={count > 0 && count < items.length}
                onChange={() =>
                  setSelected(new Set(count === items.length ? [] : items.map(({ id }) => id)))}
              />
            </Table.Th>
            {COLUMNS.map(({ column, label, width }) => (
              <Table.Th
                key={column}
                w={width}
                aria-sort={column === sort ? (desc ? "descending" : "ascending") : "none"}
              >
                <UnstyledButton
                  onClick={() => sortBy(column)}
                  fz="xs"
                  fw={600}
                  w="100%"
                  style={{ whiteSpace: "nowrap" }}
                >
                  <Group
                    gap={4}
                    wrap="nowrap"
                    justify={isText(column) || column === "state" ? "flex-start" : "flex-end"}
                  >
                    {label}
                    {column === sort && (desc ? <ArrowDown size={12} /> : <ArrowUp size={12} />)}
                  </Group>
                </UnstyledButton>
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <TableBody
          items={rows}
          row={(item) => (
            <PipelineRow
              key={item.id}
              item={item}
              height={height}
              isSelected={selected.has(item.id)}
              select={select}
            />
          )}
          rowHeight={height}
        />
      </Table>
    </Table.ScrollContainer>
  );
}
