import {
  ActionIcon,
  Code,
  CopyButton,
  Group,
  ScrollArea,
  Stack,
  Table,
  Text,
  Title,
  Tooltip,
} from "@mantine/core";
import { stringifyJson, type TailRecord } from "headwater-client";
import { Copy, CopyCheck, X } from "lucide-react";

import { JsonView } from "../common/JsonView.tsx";
import { recordValue } from "./record_text.ts";

/** A whole record with its key, its time and its headers. */
export function RecordPanel(
  { record, close, height }: { record: TailRecord; close: () => void; height: string },
) {
  const value = recordValue(record);
  return (
    <Stack gap="xs" component="aside" aria-label="The record">
      <Group justify="space-between" wrap="nowrap">
        <Title order={2}>{record.partition}/{record.offset}</Title>
        <Group gap={4}>
          <CopyButton value={stringifyJson(value, 2) ?? ""}>
            {({ copied, copy }) => (
              <Tooltip label={copied ? "Copied" : "Copy the record"}>
                <ActionIcon
                  variant="subtle"
                  color="gray"
                  aria-label="Copy the record"
                  onClick={copy}
                >
                  {copied ? <CopyCheck size={16} /> : <Copy size={16} />}
                </ActionIcon>
              </Tooltip>
            )}
          </CopyButton>
          <ActionIcon variant="subtle" color="gray" aria-label="Close" onClick={close}>
            <X size={16} />
          </ActionIcon>
        </Group>
      </Group>
      <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
        {record.timestamp} · key {record.key ?? "none"}
      </Text>
      <ScrollArea.Autosize mah={height} viewportProps={{ tabIndex: 0 }}>
        <JsonView value={value} />
        {record.headers && Object.keys(record.headers).length > 0 && (
          <Table variant="vertical" mt="xs" layout="auto">
            <Table.Tbody>
              {Object.entries(record.headers).map(([name, text]) => (
                <Table.Tr key={name}>
                  <Table.Th fz="xs" w={150}>{name}</Table.Th>
                  <Table.Td>
                    <Code fz="xs" style={{ overflowWrap: "anywhere" }}>{text}</Code>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
      </ScrollArea.Autosize>
    </Stack>
  );
}
