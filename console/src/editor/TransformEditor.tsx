import { Alert, Group, Stack, Text, TextInput } from "@mantine/core";
import type { Dispatch } from "react";

import { LinkAnchor } from "../common/links.tsx";
import type { Change } from "./changes.ts";
import { CodeEditor } from "./code/CodeEditor.tsx";
import { codeOf, type EditedTransform, labelOf } from "./document.ts";
import type { CodeProblem } from "./trial/problems.ts";

/** The open transform: its name and its code, with the problems that the trial has found. */
export function TransformEditor(
  { edited: { key, transform }, index, configId, change, example, problems }: {
    edited: EditedTransform;
    index: number;
    configId: string;
    change: Dispatch<Change>;
    example: unknown;
    problems: CodeProblem[];
  },
) {
  const isScript = transform.type === "v8";
  return (
    <Stack gap="xs">
      <Group gap="sm" align="flex-end">
        <TextInput
          label={isScript ? "Script" : "Filter"}
          placeholder={labelOf(transform, index)}
          value={transform.name ?? ""}
          onChange={(event) => change({ kind: "name", key, name: event.currentTarget.value })}
        />
        <Text size="xs" c="dimmed" pb={6}>
          {isScript
            ? "process(record) returns a record, several, or null to drop it."
            : "Keeps a record when the selected value is in the set."}
        </Text>
      </Group>
      {!isScript && transform.uid && (
        <LinkAnchor
          to="/pipelines/$id/filters/$uid"
          params={{ id: configId, uid: transform.uid }}
          size="sm"
        >
          Values of this filter
        </LinkAnchor>
      )}
      <CodeEditor
        label={`Code of ${labelOf(transform, index)}`}
        code={codeOf(transform)}
        isScript={isScript}
        example={example}
        problems={problems}
        onChange={(code) => change({ kind: "code", key, code })}
      />
      {problems.map((problem) => (
        <Alert key={problem.message} color={problem.isWarning ? "yellow" : "red"} py="xs">
          <Text size="sm" ff="monospace">{problem.message}</Text>
        </Alert>
      ))}
    </Stack>
  );
}
