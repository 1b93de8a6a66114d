import { Alert, List } from "@mantine/core";
import { CloudOff } from "lucide-react";

import { useReadiness, useRecovery } from "./use_readiness.ts";

/** What works without a part, by the part's name in the response of `/readyz`. */
const PARTS: Record<string, string> = {
  broker:
    "Kafka is unavailable: pipelines wait, and lose nothing. Records, live tails, trials, dead letters and deploys wait too. Lists, editing, history, figures and the values of filters work.",
  set_store:
    "The set store is unavailable: values of filters, datasets, prices, figures and live tails wait, and so do pipelines that look values up. Lists, editing and history work.",
  database:
    "The database is unavailable: nothing can be listed or saved. Running pipelines continue.",
  controller:
    "The controller is unavailable: deploys, pauses and teardowns wait. Running pipelines continue, and everything else works.",
};

/** Says on every page that the service or a part of it is unavailable, and what still works. */
export function OutageNotice() {
  useRecovery();
  const { error, unavailable } = useReadiness();
  if (!error) return null;
  return (
    <Alert
      color="yellow"
      icon={<CloudOff size={18} />}
      title={unavailable ? "A part of the service is unavailable" : "The service does not answer"}
      role="alert"
      mb="sm"
    >
      {unavailable
        ? (
          <List size="sm">
            {unavailable.map((name) => (
              <List.Item key={name}>{PARTS[name] ?? `${name} fails.`}</List.Item>
            ))}
          </List>
        )
        : "What is shown may be old. The console connects again by itself, and then shows the newest data."}
    </Alert>
  );
}
