import { Accordion, Badge, Code, Group, Stack, Text } from "@mantine/core";
import type { TrialRecord } from "headwater-client";

import { recordText, recordValue } from "../../records/record_text.ts";
import { type EditedTransform, labelOf } from "../document.ts";
import { MemberDiff } from "./MemberDiff.tsx";

const COLORS = { sent: "green", dropped: "gray", error: "red", unfinished: "yellow" };
const WORDS: Record<string, string> = { error: "failed", unfinished: "not finished" };
const PREVIEW_CHARACTERS = 200;

/** One record: what became of it, and what each transform did to it. */
export function TrialRow(
  { record, transforms }: { record: TrialRecord; transforms: (EditedTransform | undefined)[] },
) {
  const { input, outcome, steps } = record;
  const last = transforms[steps.length - 1];
  const where = outcome === "dropped" || outcome === "error"
    ? last && labelOf(last.transform, steps.length - 1)
    : undefined;
  const value = `${input?.partition}/${input?.offset}`;
  return (
    <Accordion.Item value={value}>
      <Accordion.Control py={0}>
        <Group gap="xs" wrap="nowrap">
          <Badge color={COLORS[outcome]} miw={86}>{WORDS[outcome] ?? outcome}</Badge>
          {where && <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>by {where}</Text>}
          <Text size="xs" ff="monospace" truncate>
            {input && recordText(input).slice(0, PREVIEW_CHARACTERS)}
          </Text>
        </Group>
      </Accordion.Control>
      <Accordion.Panel>
        <Stack gap="xs">
          {steps.map((step, index) => {
            const before = index === 0
              ? (input ? [recordValue(input)] : [])
              : steps[index - 1]!.outputs;
            const transform = transforms[index]?.transform;
            return (
              <Stack key={index} gap={4}>
                <Group gap="xs">
                  <Text size="xs" fw={600}>
                    {transform ? labelOf(transform, index) : step.type}
                  </Text>
                  {step.dropped > 0 && <Badge size="xs" color="gray">dropped</Badge>}
                </Group>
                {step.errors.map((error) => (
                  <Text key={error.message} size="xs" c="red" ff="monospace">
                    {error.error}: {error.message}
                    {error.line !== null && `, line ${error.line}`}
                  </Text>
                ))}
                {step.outputs.map((after, each) => (
                  <MemberDiff key={each} before={before[each] ?? before[0]} after={after} />
                ))}
                {step.logs.map((line, each) => <Code key={each} block fz="xs" p={4}>{line}</Code>)}
              </Stack>
            );
          })}
          {steps.length === 0 && input && outcome !== "unfinished" && (
            <MemberDiff before={recordValue(input)} after={recordValue(input)} />
          )}
        </Stack>
      </Accordion.Panel>
    </Accordion.Item>
  );
}
