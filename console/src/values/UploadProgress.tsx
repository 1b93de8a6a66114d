import { Button, Progress, Stack, Text } from "@mantine/core";

import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { duration, exact, short } from "../common/numbers.ts";
import { Stopped, type UploadState } from "./use_upload.ts";

const CHANGED = { add: "new", remove: "removed", replace: "now in the set" };

/** Shows the progress, the rate and the time left of an upload, and a button that resumes it after an error. */
export function UploadProgress({ state, resumeFailed }: {
  state: UploadState;
  resumeFailed: () => void;
}) {
  const { task, phase, share, sent, changed, completeCount, sentBefore, tooLong, error } = state;
  const isSendingReplacement = phase === "sending" && task.kind === "replace";
  const canResume = phase === "failed" && task.kind !== "replace";
  return (
    <Stack gap={4} role="status">
      <Progress
        value={share * 100}
        color={phase !== "failed" ? "water" : error instanceof Stopped ? "gray" : "red"}
        animated={isSendingReplacement}
        aria-label="Progress of the upload"
        transitionDuration={120}
      />
      <Text size="xs" c="dimmed">
        {phase === "reading"
          ? `Reading the file: ${Math.round(share * 100)} %`
          : isSendingReplacement
          ? "Sending all values in one request. The set changes at its end."
          : `${exact(sent)} sent, ${exact(changed)} ${CHANGED[task.kind]}${
            sentBefore > 0 ? " since the upload was resumed" : ""
          }`}
        {phase === "sending" && !isSendingReplacement && rateAndTimeLeft(state)}
        {phase === "paused" && ". Paused."}
        {phase === "done" && ". Done."}
        {tooLong > 0 && ` ${exact(tooLong)} longer than 1,024 characters were left out.`}
      </Text>
      {error instanceof Stopped
        ? <Text size="xs">{error.message}</Text>
        : error && <ErrorNotice error={error} />}
      {canResume && (
        <Button variant="default" w="fit-content" onClick={resumeFailed}>
          Resume after {exact(completeCount)} values
        </Button>
      )}
    </Stack>
  );
}

function rateAndTimeLeft({ sent, sentBefore, share, startedAt }: UploadState): string {
  const [ms, values] = [Date.now() - startedAt, sent - sentBefore];
  if (values <= 0 || share === 0 || ms === 0) return "";
  const remainingValues = sent * (1 - share) / share;
  return `, ${short(values / ms * 1000)}/s, about ${duration(ms * remainingValues / values)} left`;
}
