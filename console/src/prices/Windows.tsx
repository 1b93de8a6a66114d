import { Group, Table, Text } from "@mantine/core";
import type { PriceExplanation } from "headwater-client";

import { Age } from "../common/Age.tsx";
import { usd } from "../common/numbers.ts";
import { Section } from "../common/Section.tsx";
import { Change } from "./Change.tsx";

/** The lowest and the highest price of each window with the time of its trade, and the change. */
export function Windows({ explanation }: { explanation: PriceExplanation }) {
  const { windows, percent_change_1h, percent_change_24h } = explanation;
  return (
    <Section title="Windows">
      <Table.ScrollContainer minWidth={500}>
        <Table layout="fixed">
          <Table.Thead>
            <Table.Tr>
              <Table.Th fz="xs" w={60}>Last</Table.Th>
              <Table.Th fz="xs" ta="right">Low</Table.Th>
              <Table.Th fz="xs" ta="right">High</Table.Th>
              <Table.Th fz="xs" w={90} ta="right">Change</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {windows.map(({ window, low, high }) => (
              <Table.Tr key={window} h={36}>
                <Table.Td>{window.replace("h", " h")}</Table.Td>
                <Table.Td>
                  <Extreme point={low} />
                </Table.Td>
                <Table.Td>
                  <Extreme point={high} />
                </Table.Td>
                <Table.Td ta="right">
                  <Change percentage={window === "1h" ? percent_change_1h : percent_change_24h} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Section>
  );
}

function Extreme({ point }: { point: PriceExplanation["windows"][number]["low"] }) {
  if (!point) return <Text size="sm" c="dimmed" ta="right">no trade</Text>;
  return (
    <Group gap="xs" justify="flex-end" wrap="nowrap" style={{ whiteSpace: "nowrap" }}>
      <Text size="sm">{usd(point.price)}</Text>
      <Text span c="dimmed">
        <Age time={point.timestamp} />
      </Text>
    </Group>
  );
}
