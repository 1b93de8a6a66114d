import { Table, Text } from "@mantine/core";
import type { PricedToken } from "headwater-client";

import { Age } from "../common/Age.tsx";
import { LinkAnchor } from "../common/links.tsx";
import { middle, usd } from "../common/numbers.ts";
import { Change } from "./Change.tsx";
import { PriceSparkline } from "./PriceSparkline.tsx";
import { Status } from "./Status.tsx";

/** One token in the list. */
export function TokenRow({ token }: { token: PricedToken }) {
  const { chain, token_address: address, latest_price: price } = token;
  return (
    <Table.Tr h={36}>
      <Table.Td>
        <LinkAnchor
          to="/prices/$chain/$address"
          params={{ chain, address }}
          size="xs"
          fw={500}
          ff="monospace"
          title={address}
        >
          {middle(address)}
        </LinkAnchor>
      </Table.Td>
      <Table.Td>{chain}</Table.Td>
      <Table.Td ta="right">
        {price === null ? <Text size="sm" c="dimmed">–</Text> : usd(price)}
      </Table.Td>
      <Table.Td ta="right">
        <Change percentage={token.percent_change_1h} />
      </Table.Td>
      <Table.Td ta="right">
        <Change percentage={token.percent_change_24h} />
      </Table.Td>
      <Table.Td ta="right">
        {token.timestamp
          ? <Age time={token.timestamp} suffix="" />
          : <Text size="sm" c="dimmed">–</Text>}
      </Table.Td>
      <Table.Td>
        <PriceSparkline chain={chain} address={address} />
      </Table.Td>
      <Table.Td>
        <Status token={token} />
      </Table.Td>
    </Table.Tr>
  );
}
