import { ActionIcon, Group, Paper, Switch, Text, UnstyledButton } from "@mantine/core";
import { getHotkeyHandler } from "@mantine/hooks";
import type { Trial } from "headwater-client";
import { ArrowDown, ArrowUp, Braces, Funnel, Trash2 } from "lucide-react";
import type { Dispatch } from "react";

import type { Change } from "./changes.ts";
import { type EditedTransform, labelOf } from "./document.ts";

type Totals = NonNullable<Trial["summary"]>["transforms"][number];

/** One transform in the list. Alt with an arrow moves it. */
export function TransformItem({ edited, index, isLast, isOpen, open, change, totals }: {
  edited: EditedTransform;
  index: number;
  isLast: boolean;
  isOpen: boolean;
  open: () => void;
  change: Dispatch<Change>;
  totals: Totals | undefined;
}) {
  const { key, transform, isOff } = edited;
  const label = labelOf(transform, index);
  const Icon = transform.type === "v8" ? Braces : Funnel;
  const move = (by: -1 | 1) => () => change({ kind: "move", key, by });
  return (
    <Paper
      withBorder
      px="xs"
      py={4}
      bg={isOpen ? "var(--mantine-primary-color-light)" : ""}
      opacity={isOff ? 0.7 : 1}
    >
      <UnstyledButton
        w="100%"
        onClick={open}
        onKeyDown={getHotkeyHandler([["alt+ArrowUp", move(-1)], ["alt+ArrowDown", move(1)]])}
        aria-current={isOpen}
      >
        <Group gap={6} wrap="nowrap">
          <Icon size={14} />
          <Text size="sm" truncate>{label}</Text>
          {totals && (
            <Text
              size="xs"
              c={totals.errors ? "red" : "dimmed"}
              ml="auto"
              style={{ whiteSpace: "nowrap" }}
            >
              {totals.received} → {totals.sent}
              {totals.errors > 0 && `, ${totals.errors} failed`}
            </Text>
          )}
        </Group>
      </UnstyledButton>
      <Group gap={2} wrap="nowrap">
        <Switch
          size="xs"
          aria-label={`Run ${label} in the trial`}
          checked={!isOff}
          onChange={(event) => change({ kind: "off", key, isOff: !event.currentTarget.checked })}
        />
        <Group gap={2} ml="auto" wrap="nowrap">
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            disabled={index === 0}
            aria-label={`Move ${label} up`}
            onClick={move(-1)}
          >
            <ArrowUp size={12} />
          </ActionIcon>
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            disabled={isLast}
            aria-label={`Move ${label} down`}
            onClick={move(1)}
          >
            <ArrowDown size={12} />
          </ActionIcon>
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            aria-label={`Remove ${label}`}
            onClick={() => change({ kind: "remove", key })}
          >
            <Trash2 size={12} />
          </ActionIcon>
        </Group>
      </Group>
    </Paper>
  );
}
