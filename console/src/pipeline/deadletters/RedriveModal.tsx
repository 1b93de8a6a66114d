import { Button, Group, Modal, Progress, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { Flow, LetterSelection } from "headwater-client";
import { useEffect } from "react";

import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { exact } from "../../common/numbers.ts";

const EVERY_MS = 500;

/** Counts the letters, sends them, and shows how far the redrive is. The redrive continues after the dialog is closed. */
export function RedriveModal({ flow, selection, close }: {
  flow: Flow;
  selection: LetterSelection;
  close: () => void;
}) {
  const queries = useQueryClient();
  const count = useQuery({
    queryKey: ["pipeline", flow.id, "letters", "count", selection],
    queryFn: ({ signal }) => flow.deadLetters.count(selection, { signal }),
    staleTime: 0,
  });
  const redrive = useMutation({ mutationFn: () => flow.deadLetters.startRedrive(selection) });
  const id = redrive.data?.id;
  const { data: state, error: lost } = useQuery({
    queryKey: ["pipeline", flow.id, "redrive", id],
    queryFn: ({ signal }) => flow.deadLetters.redriveState(id!, { signal }),
    enabled: id !== undefined,
    refetchInterval: ({ state: { data } }) => data?.state === "running" || !data ? EVERY_MS : false,
  });
  const isRunning = state?.state === "running";
  useEffect(() => {
    if (state && !isRunning) {
      void queries.invalidateQueries({ queryKey: ["pipeline", flow.id, "letters"] });
    }
  }, [queries, flow.id, state === undefined, isRunning]);
  const done = state ? state.delivered + state.dropped + state.failed : 0;
  const error = count.error ?? redrive.error ?? lost;
  return (
    <Modal
      opened
      onClose={close}
      title="Redrive dead letters"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Stack>
        {error && <ErrorNotice error={error} />}
        {!state && count.data !== undefined && (
          <Text size="sm">
            {count.data === 0
              ? "No letter is left to send: all of them were redriven already."
              : `${
                exact(count.data)
              } letters go through revision ${flow.revision} once each, beside the stream. One that fails again is a new dead letter.`}
          </Text>
        )}
        {state && (
          <>
            <Progress
              value={state.requested ? done / state.requested * 100 : 100}
              aria-label="Progress"
              transitionDuration={120}
            />
            <Text size="sm">
              {exact(done)} of {exact(state.requested)}: {exact(state.delivered)} delivered,{" "}
              {exact(state.dropped)} dropped, {exact(state.failed)} failed
              {state.state !== "running" && (state.state === "done" ? ". Done." : ". Stopped.")}
            </Text>
          </>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>{state ? "Close" : "Cancel"}</Button>
          {!state && (
            <Button
              disabled={!count.data}
              loading={redrive.isPending || id !== undefined}
              onClick={() => redrive.mutate()}
            >
              Redrive
            </Button>
          )}
        </Group>
      </Stack>
    </Modal>
  );
}
