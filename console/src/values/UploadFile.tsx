import { Button, FileInput, Group, Select, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import { FileUp, Pause, Play } from "lucide-react";
import { useState } from "react";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { exact } from "../common/numbers.ts";
import { shapeOf } from "./parse.ts";
import { UploadProgress } from "./UploadProgress.tsx";
import { isSameFile, type UnfinishedUpload, unfinishedUpload } from "./unfinished_upload.ts";
import { type UploadKind, useUpload } from "./use_upload.ts";
import type { ValueSource } from "./value_source.ts";

const PREVIEW_ROWS = 5;

/** Values from a file of text, CSV or JSON lines: choose the column from a preview, then add, remove or replace. */
export function UploadFile({ source }: { source: ValueSource }) {
  const [file, setFile] = useState<File | null>(null);
  const [chosen, choose] = useState<string | null>(null);
  const { state, start, pause, resume, cancel } = useUpload(source);
  const [cutOff] = useState(() => unfinishedUpload(source));
  const { data: shape, error } = useQuery({
    queryKey: ["file", file?.name, file?.size, file?.lastModified],
    queryFn: () => shapeOf(file!),
    enabled: file !== null,
    staleTime: Infinity,
  });
  const column = chosen ?? shape?.columns[0];
  const begin = (kind: UploadKind) => () => {
    if (file && shape && column) void start({ kind, file, shape, column });
  };
  const offered = state ? undefined : cutOff;
  const isOffered = file !== null && offered !== undefined && isSameFile(offered, file);
  const goOn = ({ kind, column, complete }: UnfinishedUpload) => () => {
    if (file && shape) void start({ kind, file, shape, column }, complete);
  };
  const phase = state?.phase;
  const isRunning = phase === "reads" || phase === "sends" || phase === "paused";
  const isOneRequest = phase === "sends" && state?.task.kind === "replace";
  useBlocker({
    shouldBlockFn: () => isRunning && !confirm("Leave and stop the upload?"),
    enableBeforeUnload: isRunning,
  });
  return (
    <Stack gap="xs">
      <FileInput
        label="From a file"
        description="Text with a value in each line, CSV, or JSON lines"
        placeholder="Choose a file"
        size="xs"
        leftSection={<FileUp size={14} />}
        clearable
        value={file}
        onChange={(next) => {
          setFile(next);
          choose(null);
        }}
      />
      {offered && !isOffered && (
        <Text size="xs">
          The upload of {offered.file.name} was cut off. Choose the same file to go on after{" "}
          {exact(offered.complete)} values.
        </Text>
      )}
      {error && <ErrorNotice error={error} />}
      {file && shape && column && (
        <>
          {shape.columns.length > 1 && (
            <Select label="Column" data={shape.columns} value={column} onChange={choose} />
          )}
          <Table.ScrollContainer minWidth={300}>
            <Table withTableBorder fz="xs">
              <Table.Thead>
                <Table.Tr>
                  {shape.columns.map((name) => (
                    <Table.Th key={name} c={name === column ? "" : "dimmed"}>{name}</Table.Th>
                  ))}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {shape.rows.slice(0, PREVIEW_ROWS).map((row, index) => (
                  <Table.Tr key={index}>
                    {row.map((cell, each) => (
                      <Table.Td key={each} c={shape.columns[each] === column ? "" : "dimmed"}>
                        {cell.slice(0, 60)}
                      </Table.Td>
                    ))}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
          <Group gap="xs">
            {isRunning && !isOneRequest && (
              <Button
                variant="default"
                leftSection={phase === "paused" ? <Play size={14} /> : <Pause size={14} />}
                onClick={phase === "paused" ? resume : pause}
              >
                {phase === "paused" ? "Go on" : "Pause"}
              </Button>
            )}
            {isRunning ? <Button variant="default" color="red" onClick={cancel}>Stop</Button> : (
              <>
                {isOffered && (
                  <Button onClick={goOn(offered)}>
                    Go on after {exact(offered.complete)} values
                  </Button>
                )}
                <Button variant={isOffered ? "default" : "filled"} onClick={begin("add")}>
                  Add all
                </Button>
                <Button variant="default" onClick={begin("remove")}>Remove all</Button>
                {source.replace && (
                  <Button variant="default" onClick={begin("replace")}>
                    Replace the set by these
                  </Button>
                )}
              </>
            )}
          </Group>
        </>
      )}
      {state && (
        <UploadProgress
          state={state}
          goOn={() => void start(state.task, state.complete)}
        />
      )}
    </Stack>
  );
}
