import { Alert, Code } from "@mantine/core";
import { TriangleAlert } from "lucide-react";

/** Says that nothing stores new trades. */
export function NoWorker() {
  return (
    <Alert color="yellow" icon={<TriangleAlert size={18} />} title="No prices worker runs">
      New trades wait in Kafka, and the prices below do not change. Start a worker with{" "}
      <Code>headwater prices worker</Code>; it is a part of <Code>headwater up</Code>.
    </Alert>
  );
}
