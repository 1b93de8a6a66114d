import { ActionIcon, Group, Table, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { KafkaConnection } from "headwater-client";
import { Eye, EyeOff } from "lucide-react";

import { CopyText } from "../../common/CopyText.tsx";

/** Where and as whom to connect; a click copies, and the password is shown on demand. */
export function Credentials({ sink }: { sink: KafkaConnection }) {
  const [isShown, { toggle }] = useDisclosure();
  const rows: [string, string | null][] = [
    ["Topic", sink.topic],
    ["Servers", sink.bootstrap_servers],
    ["Security", [sink.security_protocol, sink.sasl_mechanism].filter(Boolean).join(", ")],
    ["Group", sink.consumer_group],
    ["User", sink.username],
  ];
  return (
    <Table variant="vertical" layout="fixed">
      <Table.Tbody>
        {rows.map(([name, text]) => (
          <Table.Tr key={name}>
            <Table.Th w={96} fz="xs">{name}</Table.Th>
            <Table.Td style={{ overflowWrap: "anywhere" }}>
              {text
                ? <CopyText text={text} />
                : <Text size="xs" c="dimmed">from your operator</Text>}
            </Table.Td>
          </Table.Tr>
        ))}
        <Table.Tr>
          <Table.Th fz="xs">Password</Table.Th>
          <Table.Td style={{ overflowWrap: "anywhere" }}>
            {sink.password
              ? (
                <Group gap="xs" wrap="nowrap" justify="space-between">
                  <CopyText
                    text={sink.password}
                    shown={isShown ? sink.password : "••••••••••••"}
                    isSecret
                  />
                  <ActionIcon
                    variant="subtle"
                    color="gray"
                    aria-label={isShown ? "Hide the password" : "Show the password"}
                    onClick={toggle}
                  >
                    {isShown ? <EyeOff size={14} /> : <Eye size={14} />}
                  </ActionIcon>
                </Group>
              )
              : <Text size="xs" c="dimmed">from your operator</Text>}
          </Table.Td>
        </Table.Tr>
      </Table.Tbody>
    </Table>
  );
}
