import { Alert, Button, Group, List, Text } from "@mantine/core";
import {
  ConnectionFailed,
  NotAllowed,
  NotFound,
  RequestFailed,
  Unavailable,
  Unprocessable,
} from "headwater-client";
import { CircleAlert } from "lucide-react";

import { textOf } from "./errors.ts";

/** Says what is wrong, in the words of the server, and what to do. */
export function ErrorNotice({ error, retry }: { error: Error; retry?: () => void }) {
  const requestId = error instanceof RequestFailed ? error.problem.request_id : "";
  const faults = error instanceof Unprocessable ? error.errors : [];
  return (
    <Alert color="red" variant="light" icon={<CircleAlert size={18} />} title={titleOf(error)}>
      <Text size="sm">{textOf(error)}</Text>
      {faults.length > 0 && (
        <List size="sm" mt="xs">
          {faults.map((fault) => (
            <List.Item key={fault.pointer + fault.detail}>
              {fault.pointer || "body"}: {fault.detail}
            </List.Item>
          ))}
        </List>
      )}
      <Group mt="xs" gap="sm">
        {retry && <Button variant="default" onClick={retry}>Try again</Button>}
        {requestId && <Text size="xs" c="dimmed">Request {requestId}</Text>}
      </Group>
    </Alert>
  );
}

function titleOf(error: Error): string {
  if (error instanceof ConnectionFailed) return "The service can't be reached";
  if (error instanceof Unavailable) return "A service is unavailable";
  if (error instanceof NotAllowed) return "This key may not do that";
  if (error instanceof NotFound) return "Not found";
  return "That did not work";
}
