import { Button, Group, Modal, ScrollArea, Stack, Table, Text, TextInput } from "@mantine/core";
import type { OverviewItem } from "headwater-client";
import { useState } from "react";

import type { BulkAction } from "./actions.ts";
import { Result } from "./Result.tsx";
import { useBulk } from "./use_bulk.ts";

/** From this number on, the action is confirmed by typing it. */
const TYPED_FROM = 5;

/** Says what happens with the pipelines, asks, and shows the result of each. */
export function BulkModal({ action, items, close }: {
  action: BulkAction;
  items: OverviewItem[];
  /** Takes the ids of the pipelines with which it was not done. */
  close: (notDone: string[]) => void;
}) {
  const { progress, isRunning, start, stop } = useBulk(action, items);
  const [typed, setTyped] = useState("");
  const wanted = `${action.word.toLowerCase()} ${items.length}`;
  const isTyped = items.length >= TYPED_FROM;
  const hasEnded = progress.size > 0 && !isRunning;
  const done = items.filter(({ id }) => progress.get(id) === "done").length;
  const leave = () =>
    close(items.filter(({ id }) => progress.get(id) !== "done").map(({ id }) => id));
  const plural = items.length === 1 ? "pipeline" : "pipelines";
  return (
    <Modal
      opened
      onClose={leave}
      title={`${action.word} ${items.length} ${plural}${progress.size ? "" : "?"}`}
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
      closeOnClickOutside={false}
      withCloseButton={!isRunning}
      closeOnEscape={!isRunning}
    >
      <Stack
        component="form"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        {hasEnded
          ? (
            <Text size="sm" role="status">
              {done} of {items.length}{" "}
              {done === items.length ? "done" : "done; see the others below"}.
            </Text>
          )
          : <Text size="sm">{action.text}</Text>}
        <ScrollArea.Autosize mah={400} viewportProps={{ tabIndex: 0, "aria-label": "Pipelines" }}>
          <Table>
            <Table.Tbody>
              {items.map((item) => (
                <Table.Tr key={item.id} h={36}>
                  <Table.Td w="45%">
                    <Text size="sm" style={{ overflowWrap: "anywhere" }}>{item.name}</Text>
                  </Table.Td>
                  <Table.Td>
                    <Result progress={progress.get(item.id)} done={action.done} item={item} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </ScrollArea.Autosize>
        {isTyped && progress.size === 0 && (
          <TextInput
            label={`Type “${wanted}” to confirm`}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            autoComplete="off"
            data-autofocus
          />
        )}
        <Group justify="flex-end">
          {progress.size === 0 && (
            <>
              <Button variant="default" onClick={leave}>Cancel</Button>
              <Button
                type="submit"
                leftSection={<action.Icon size={14} />}
                {...(action.color ? { color: action.color } : {})}
                disabled={isTyped && typed.trim().toLowerCase() !== wanted}
              >
                {action.word}
              </Button>
            </>
          )}
          {isRunning && <Button variant="default" onClick={stop}>Start no more</Button>}
          {hasEnded && <Button onClick={leave}>Close</Button>}
        </Group>
      </Stack>
    </Modal>
  );
}
