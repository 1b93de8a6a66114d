import { Table } from "@mantine/core";
import type { PricedToken } from "headwater-client";

import { TokenRow } from "./TokenRow.tsx";

/** A page of tokens with their prices. */
export function TokenTable({ tokens }: { tokens: PricedToken[] }) {
  return (
    <Table.ScrollContainer minWidth={960}>
      <Table layout="fixed" horizontalSpacing={8}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th fz="xs" w={136}>Token</Table.Th>
            <Table.Th fz="xs" w={92}>Network</Table.Th>
            <Table.Th fz="xs" w={114} ta="right">Price, USD</Table.Th>
            <Table.Th fz="xs" w={82} ta="right">1 h</Table.Th>
            <Table.Th fz="xs" w={82} ta="right">24 h</Table.Th>
            <Table.Th fz="xs" w={64} ta="right">Age</Table.Th>
            <Table.Th fz="xs" w={116}>Last day</Table.Th>
            <Table.Th fz="xs">Status</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tokens.map((token) => (
            <TokenRow key={`${token.chain}:${token.token_address}`} token={token} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
