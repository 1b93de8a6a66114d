import { Code, Group, Stack, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { Empty } from "../common/Empty.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { LinkButton } from "../common/links.tsx";
import { PageSearch } from "../common/PageSearch.tsx";
import { Rows } from "../common/Rows.tsx";
import { Stale } from "../common/Stale.tsx";
import { useDelayed } from "../common/use_delayed.ts";
import { NoWorker } from "./NoWorker.tsx";
import { TokenTable } from "./TokenTable.tsx";
import { useTokens } from "./use_tokens.ts";

/** What do tokens cost, and which prices are old or held? */
export function PricesPage() {
  const search = useSearch({ from: "/prices" });
  const navigate = useNavigate({ from: "/prices" });
  const { data, error, isPending, refetch, dataUpdatedAt } = useTokens(search);
  const isSlow = useDelayed(isPending);
  useDocumentTitle("Prices – Headwater");
  const isEmpty = data?.items.length === 0;
  const { cursor: _, ...first } = search;
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Group gap="sm">
          <Title order={1}>Prices</Title>
          {data && <Stale error={error} updatedAt={dataUpdatedAt} />}
        </Group>
        <PageSearch
          label="Search tokens"
          placeholder="Address, or network:address"
          text={search.q ?? ""}
          change={(q) => navigate({ search: q ? { q } : {}, replace: true })}
        />
      </Group>
      {data?.worker_runs === false && <NoWorker />}
      {isSlow && <Rows />}
      {error && !data && <ErrorNotice error={error} retry={() => refetch()} />}
      {isEmpty && (search.q || search.cursor) && (
        <Empty title="No token matches">
          Type the beginning of an address, or a network, a colon and the beginning of an address.
        </Empty>
      )}
      {isEmpty && !search.q && !search.cursor && (
        <Empty title="No prices yet">
          Prices come from trades: a pipeline with a sink of the type prices writes them, for
          example one that <Code>headwater prices enable</Code>{" "}
          creates. A token is here from its first trade on.
        </Empty>
      )}
      {data && !isEmpty && <TokenTable tokens={data.items} />}
      {data && (search.cursor || data.cursor) && (
        <Group gap="xs" justify="flex-end">
          {search.cursor && (
            <LinkButton to="/prices" search={first} variant="default">First page</LinkButton>
          )}
          {data.cursor && (
            <LinkButton
              to="/prices"
              search={{ ...first, cursor: data.cursor }}
              variant="default"
            >
              Next page
            </LinkButton>
          )}
        </Group>
      )}
    </Stack>
  );
}
