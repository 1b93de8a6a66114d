import { SegmentedControl, Table, Text } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { PriceExplanation } from "headwater-client";
import { CircleCheck, CircleX, Hand } from "lucide-react";

import { Age } from "../common/Age.tsx";
import { usd } from "../common/numbers.ts";
import { Section } from "../common/Section.tsx";
import { type Look, StateBadge } from "../common/StateBadge.tsx";
import type { TradeKind } from "./search.ts";
import { tradesOf } from "./trades.ts";

const LOOKS: Record<TradeKind, Look> = {
  counted: { word: "Counted", color: "green", Icon: CircleCheck },
  held: { word: "Held", color: "yellow", Icon: Hand },
  rejected: { word: "Rejected", color: "red", Icon: CircleX },
};
const CHOICES: { value: TradeKind | ""; label: string }[] = [
  { value: "", label: "All" },
  { value: "counted", label: "Counted" },
  { value: "held", label: "Held" },
  { value: "rejected", label: "Rejected" },
];

/** The newest trades, and why each counts or does not count. */
export function Trades({ explanation }: { explanation: PriceExplanation }) {
  const { trades: kind } = useSearch({ from: "/prices/$chain/$address" });
  const navigate = useNavigate({ from: "/prices/$chain/$address" });
  const shown = tradesOf(explanation).filter((trade) => !kind || trade.kind === kind);
  const choice = (
    <SegmentedControl
      aria-label="Trades"
      data={CHOICES}
      value={kind ?? ""}
      onChange={(value) =>
        navigate({
          search: ({ trades: _, ...before }) =>
            value ? { ...before, trades: value as TradeKind } : before,
          replace: true,
        })}
    />
  );
  return (
    <Section title="Newest trades" right={choice}>
      {shown.length === 0 && <Text size="sm" c="dimmed">There are no such trades.</Text>}
      {shown.length > 0 && (
        <Table.ScrollContainer minWidth={700}>
          <Table layout="fixed">
            <Table.Thead>
              <Table.Tr>
                <Table.Th fz="xs" w={200}>Time, UTC</Table.Th>
                <Table.Th fz="xs" w={90} ta="right">Age</Table.Th>
                <Table.Th fz="xs" w={130} ta="right">Price, USD</Table.Th>
                <Table.Th fz="xs" w={120}>Status</Table.Th>
                <Table.Th fz="xs">Why</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {shown.map((trade, index) => (
                <Table.Tr key={index} h={36}>
                  <Table.Td style={{ whiteSpace: "nowrap" }}>
                    {trade.timestamp.replace("T", " ").replace("Z", "")}
                  </Table.Td>
                  <Table.Td ta="right">
                    <Age time={trade.timestamp} suffix="" />
                  </Table.Td>
                  <Table.Td ta="right">{usd(trade.price)}</Table.Td>
                  <Table.Td>
                    <StateBadge look={LOOKS[trade.kind]} />
                  </Table.Td>
                  <Table.Td>
                    <Text size="sm">{trade.why}</Text>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Section>
  );
}
