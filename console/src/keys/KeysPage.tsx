import { Badge, Group, Progress, Stack, Table, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";

import { useHeadwater } from "../app/session.tsx";
import { CopyText } from "../common/CopyText.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { exact } from "../common/numbers.ts";
import { Section } from "../common/Section.tsx";

const NEARLY = 0.9;

/** What this key may do and until when, and how much of each quota is used. */
export function KeysPage() {
  const hw = useHeadwater();
  const key = useQuery({
    queryKey: ["me"],
    queryFn: ({ signal }) => hw.me({ signal }),
  });
  const limits = useQuery({
    queryKey: ["limits"],
    queryFn: ({ signal }) => hw.limits({ signal }),
    refetchInterval: 15_000,
  });
  const error = key.error ?? limits.error;
  useDocumentTitle("Keys – Headwater");
  return (
    <Stack gap="lg" maw={760}>
      <Title order={1}>Keys and limits</Title>
      {error && <ErrorNotice error={error} />}
      {key.data && (
        <Section title="This key">
          <Group gap="xs">
            <Text size="sm">Key</Text>
            <CopyText text={key.data.key_id} />
            <Text size="sm">
              of {key.data.owner},{" "}
              {key.data.expires_at ? `until ${key.data.expires_at}` : "without an end"}.
            </Text>
          </Group>
          <Group gap="xs">
            {key.data.scopes.map((scope) => <Badge key={scope} color="gray">{scope}</Badge>)}
          </Group>
        </Section>
      )}
      {limits.data && (
        <Section title="Limits">
          <Table>
            <Table.Tbody>
              {limits.data.map(({ name, used, allowed }) => {
                const share = allowed ? used / allowed : 0;
                return (
                  <Table.Tr key={name} h={36}>
                    <Table.Td w={200}>{name.replaceAll("_", " ")}</Table.Td>
                    <Table.Td ta="right" w={220}>
                      {exact(used)}
                      {allowed !== null ? ` of ${exact(allowed)}` : ", without a limit"}
                    </Table.Td>
                    <Table.Td>
                      {allowed !== null && (
                        <Progress
                          value={share * 100}
                          color={share > NEARLY ? "red" : "water"}
                          aria-label={`${name} used`}
                        />
                      )}
                    </Table.Td>
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
          </Table>
        </Section>
      )}
    </Stack>
  );
}
