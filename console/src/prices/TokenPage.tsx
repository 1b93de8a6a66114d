import { Alert, Grid, Group, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useParams } from "@tanstack/react-router";

import { Age } from "../common/Age.tsx";
import { CopyText } from "../common/CopyText.tsx";
import { Empty } from "../common/Empty.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { LinkAnchor } from "../common/links.tsx";
import { middle, usd } from "../common/numbers.ts";
import { Rows } from "../common/Rows.tsx";
import { Stale } from "../common/Stale.tsx";
import { StateBadge } from "../common/StateBadge.tsx";
import { useDelayed } from "../common/use_delayed.ts";
import { Bands } from "./Bands.tsx";
import { PricePlot } from "./PricePlot.tsx";
import { lookOf, sentenceOf } from "./token_status.ts";
import { Trades } from "./Trades.tsx";
import { useExplanation } from "./use_tokens.ts";
import { Windows } from "./Windows.tsx";

/** One token: what it costs, and how this price comes about. */
export function TokenPage() {
  const { chain, address } = useParams({ from: "/prices/$chain/$address" });
  const { data, error, isPending, refetch, dataUpdatedAt } = useExplanation(chain, address);
  const isSlow = useDelayed(isPending);
  useDocumentTitle(`${middle(address)} – Headwater`);
  if (!data) {
    return error
      ? <ErrorNotice error={error} retry={() => refetch()} />
      : isSlow
      ? <Rows count={10} />
      : null;
  }
  if (data.bands.length === 0) {
    return (
      <Empty title={`${middle(address)} has no prices`}>
        {data.status === "unknown_chain"
          ? `There is no network ${chain}.`
          : `No trade of this token on ${chain} is stored: it never had one, or none in the last 30 to 60 days.`}
        {" "}
        <LinkAnchor to="/prices" size="sm">Go to all prices</LinkAnchor>
      </Empty>
    );
  }
  const sentence = sentenceOf(data, 0);
  return (
    <Stack gap="lg">
      <Stack gap="xs">
        <Group gap="sm">
          <Title order={1}>{data.latest ? `${usd(data.latest.price)} USD` : "No price"}</Title>
          <StateBadge look={lookOf(data.status)} />
          {data.latest && (
            <Text size="sm" c="dimmed">
              <Age time={data.latest.timestamp} />
            </Text>
          )}
          <Stale error={error} updatedAt={dataUpdatedAt} />
        </Group>
        <Group gap="xs">
          <CopyText text={data.token_address} />
          <Text size="sm" c="dimmed">on {chain}</Text>
        </Group>
        {sentence && <Alert color="yellow">{sentence}</Alert>}
      </Stack>
      <PricePlot chain={chain} address={address} explanation={data} />
      <Grid>
        <Grid.Col span={{ base: 12, md: 6 }}>
          <Windows explanation={data} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 6 }}>
          <Bands explanation={data} />
        </Grid.Col>
      </Grid>
      <Trades explanation={data} />
    </Stack>
  );
}
