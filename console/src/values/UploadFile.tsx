import { Button, FileInput, Group, Select, Stack, Table, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import { FileUp, Pause, Play } from "lucide-react";
import { useState } from "react";

import { ConfirmModal } from "../common/ConfirmModal.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { exact } from "../common/numbers.ts";
import { shapeOf } from "./parse.ts";
import { UploadProgress } from "./UploadProgress.tsx";
import { isSameFile, loadUnfinishedUpload } from "./unfinished_upload.ts";
import { type UploadKind, useUpload } from "./use_upload.ts";
import type { ValueSource } from "./value_source.ts";

const PREVIEW_ROWS = 5;

/**
 * Uploads values from a file of text, CSV or JSON lines. The user chooses the column in a preview, and then adds or
 * removes the values, or replaces the whole set with them.
 */
export function UploadFile({ source }: { source: ValueSource }) {
  const [file, setFile] = useState<File | null>(null);
  const [chosenColumn, setChosenColumn] = useState<string | null>(null);
  const [isReplaceOpen, replaceModal] = useDisclosure();
  const { state, start, pause, resume, cancel, reset } = useUpload(source);
  const { data: shape, error } = useQuery({
    queryKey: ["file", file?.name, file?.size, file?.lastModified],
    queryFn: () => shapeOf(file!),
    enabled: file !== null,
    staleTime: Infinity,
  });
  const column = chosenColumn ?? shape?.columns[0];
  const startNew = (kind: UploadKind) => () => {
    if (file && shape && column) void start({ kind, file, shape, column });
  };
  const unfinished = state ? undefined : loadUnfinishedUpload(source);
  const canResume = file !== null && unfinished !== undefined && isSameFile(unfinished, file);
  const verb = unfinished?.kind === "remove" ? "removing" : "adding";
  const resumeSaved = () => {
    if (file && shape && unfinished) {
      void start({ ...unfinished, file, shape }, unfinished.complete);
    }
  };
  const phase = state?.phase;
  const isRunning = phase === "reading" || phase === "sending" || phase === "paused";
  const isSendingReplacement = phase === "sending" && state?.task.kind === "replace";
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
        disabled={isRunning}
        value={file}
        onChange={(next) => {
          reset();
          setFile(next);
          setChosenColumn(null);
        }}
      />
      {unfinished && !canResume && (
        <Text size="xs">
          The upload of {unfinished.file.name} is not finished. Choose the same file to resume{" "}
          {verb} after {exact(unfinished.complete)}{" "}
          values. An upload of another file begins at its start.
        </Text>
      )}
      {error && <ErrorNotice error={error} />}
      {file && shape && column && (
        <>
          {shape.columns.length > 1 && (
            <Select
              label="Column"
              data={shape.columns}
              value={column}
              onChange={setChosenColumn}
              disabled={isRunning}
            />
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
            {isRunning && !isSendingReplacement && (
              <Button
                variant="default"
                leftSection={phase === "paused" ? <Play size={14} /> : <Pause size={14} />}
                onClick={phase === "paused" ? resume : pause}
              >
                {phase === "paused" ? "Resume" : "Pause"}
              </Button>
            )}
            {isRunning && !isSendingReplacement && (
              <Button variant="default" color="red" onClick={cancel}>Stop</Button>
            )}
            {!isRunning && (
              <>
                {canResume && (
                  <Button onClick={resumeSaved}>
                    Resume after {exact(unfinished.complete)} values ({verb} {unfinished.column})
                  </Button>
                )}
                <Button variant={canResume ? "default" : "filled"} onClick={startNew("add")}>
                  Add these values
                </Button>
                <Button variant="default" onClick={startNew("remove")}>Remove these values</Button>
                {source.replace && (
                  <Button variant="default" onClick={replaceModal.open}>Replace all values…</Button>
                )}
              </>
            )}
          </Group>
        </>
      )}
      {file && (
        <ConfirmModal
          title="Replace all values?"
          text={`All values of the set are removed, and the values of ${file.name} are in the set instead. This can't be undone.`}
          action="Replace"
          isOpen={isReplaceOpen}
          close={replaceModal.close}
          work={() => Promise.resolve(startNew("replace")())}
        />
      )}
      {state && (
        <UploadProgress
          state={state}
          resumeFailed={() => void start(state.task, state.completeCount)}
        />
      )}
    </Stack>
  );
}
