import { ActionIcon, Button, Group, Input, Stack, TextInput } from "@mantine/core";
import { kafka, type NewSink } from "headwater-client";
import { Plus, Trash2 } from "lucide-react";

/** The sinks: the names of the topics. */
export function SinkList({ sinks, set }: { sinks: NewSink[]; set: (sinks: NewSink[]) => void }) {
  return (
    <Stack gap={4}>
      <Input.Label size="xs">Sinks</Input.Label>
      {sinks.map((sink, index) => (
        <Group key={index} gap={4} wrap="nowrap">
          <TextInput
            flex={1}
            aria-label={`Name of sink ${index + 1}`}
            value={sink.name}
            onChange={(event) =>
              set(sinks.with(index, { ...sink, name: event.currentTarget.value }))}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            disabled={sinks.length === 1}
            aria-label={`Remove sink ${sink.name}`}
            onClick={() => set(sinks.toSpliced(index, 1))}
          >
            <Trash2 size={12} />
          </ActionIcon>
        </Group>
      ))}
      <Button
        variant="default"
        size="compact-xs"
        w="fit-content"
        leftSection={<Plus size={12} />}
        onClick={() => set([...sinks, kafka(`out-${sinks.length + 1}`)])}
      >
        Kafka topic
      </Button>
    </Stack>
  );
}
