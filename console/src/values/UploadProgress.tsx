import { Button, Progress, Stack, Text } from "@mantine/core";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { duration, exact, short } from "../common/numbers.ts";
import type { UploadState } from "./use_upload.ts";

const CHANGED = { add: "new", remove: "removed", replace: "now in the set" };

/** How far an upload is: values, rate and time left; and the way to go on after an error. */
export function UploadProgress({ state, goOn }: { state: UploadState; goOn: () => void }) {
  const { task, phase, share, sent, changed, complete, error } = state;
  const isOneRequest = phase === "sends" && task.kind === "replace";
  const canGoOn = phase === "failed" && task.kind !== "replace";
  return (
    <Stack gap={4} role="status">
      <Progress
        value={share * 100}
        color={phase === "failed" ? "red" : "water"}
        animated={isOneRequest}
        aria-label="Progress of the upload"
        transitionDuration={120}
      />
      <Text size="xs" c="dimmed">
        {phase === "reads"
          ? `Reading the file: ${Math.round(share * 100)} %`
          : isOneRequest
          ? "Sending all values in one request. The set changes at its end."
          : `${exact(sent)} sent, ${exact(changed)} ${CHANGED[task.kind]}`}
        {phase === "sends" && !isOneRequest && speedOf(state)}
        {phase === "paused" && ". Paused."}
        {phase === "done" && ". Done."}
      </Text>
      {error && <ErrorNotice error={error} />}
      {canGoOn && (
        <Button variant="default" w="fit-content" onClick={goOn}>
          Go on after {exact(complete)} values
        </Button>
      )}
    </Stack>
  );
}

function speedOf({ sent, share, startedAt }: UploadState): string {
  const ms = Date.now() - startedAt;
  if (sent === 0 || share === 0 || ms === 0) return "";
  return `, ${short(sent / ms * 1000)}/s, about ${duration(ms * (1 - share) / share)} left`;
}
