import { Table, Text } from "@mantine/core";
import type { PriceExplanation } from "headwater-client";

import { Age } from "../common/Age.tsx";
import { Figure } from "../common/Figure.tsx";
import { usd } from "../common/numbers.ts";
import { Section } from "../common/Section.tsx";

/** The bands of prices, and which of them count. */
export function Bands({ explanation: { bands, required_minutes } }: {
  explanation: PriceExplanation;
}) {
  const note = (
    <Text size="xs" c="dimmed">A band counts from {required_minutes} minutes with trades on.</Text>
  );
  return (
    <Section title="Bands" right={required_minutes !== null && note}>
      <Table.ScrollContainer minWidth={460}>
        <Table layout="fixed">
          <Table.Thead>
            <Table.Tr>
              <Table.Th fz="xs">Prices from, to</Table.Th>
              <Table.Th fz="xs" w={80} ta="right">Minutes</Table.Th>
              <Table.Th fz="xs" w={100} ta="right">Newest</Table.Th>
              <Table.Th fz="xs" w={130}>Counts</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {bands.map((band) => (
              <Table.Tr key={band.min_price} h={36}>
                <Table.Td>{usd(band.min_price)} – {usd(band.max_price)}</Table.Td>
                <Table.Td ta="right">
                  <Figure value={band.active_minutes} />
                </Table.Td>
                <Table.Td ta="right">
                  <Age time={band.last.timestamp} />
                </Table.Td>
                <Table.Td>
                  {!band.accepted ? "no" : band.established ? "yes" : "yes, as a neighbour"}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Section>
  );
}
