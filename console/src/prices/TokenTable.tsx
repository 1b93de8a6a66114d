import { Table } from "@mantine/core";
import type { PricedToken } from "headwater-client";

import { TokenRow } from "./TokenRow.tsx";

/** A page of tokens with their prices. */
export function TokenTable({ tokens }: { tokens: PricedToken[] }) {
  return (
    <Table.ScrollContainer minWidth={900}>
      <Table layout="fixed">
        <Table.Thead>
          <Table.Tr>
            <Table.Th fz="xs" w={170}>Token</Table.Th>
            <Table.Th fz="xs" w={110}>Network</Table.Th>
            <Table.Th fz="xs" w={120} ta="right">Price, USD</Table.Th>
            <Table.Th fz="xs" w={90} ta="right">1 h</Table.Th>
            <Table.Th fz="xs" w={90} ta="right">24 h</Table.Th>
            <Table.Th fz="xs" w={80} ta="right">Age</Table.Th>
            <Table.Th fz="xs" w={120}>Last day</Table.Th>
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
