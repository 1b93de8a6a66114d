import { Badge, Table, Text, UnstyledButton } from "@mantine/core";
import type { Flow, Worker } from "headwater-client";

import { Age } from "../common/Age.tsx";
import { ErrorNotice } from "../common/ErrorNotice.tsx";
import { exact } from "../common/numbers.ts";
import { Section } from "../common/Section.tsx";
import { useDeployed } from "./use_pipeline.ts";

const COLORS: Record<Worker["status"], string> = {
  Running: "green",
  Pending: "blue",
  Terminating: "gray",
  CrashLoopBackOff: "red",
  OOMKilled: "red",
};

/** The workers; a click on one shows its lines alone. */
export function Workers({ flow, selected, select }: {
  flow: Flow;
  selected: string | undefined;
  select: (worker: string | undefined) => void;
}) {
  const { data: stats, error } = useDeployed(
    flow,
    ["stats"],
    (each, signal) => each.stats({ signal }),
  );
  const lag = stats?.lag;
  return (
    <Section
      title="Workers"
      right={lag !== null && lag !== undefined && (
        <Text size="sm" c="dimmed">{exact(lag)} records behind</Text>
      )}
    >
      {error && !stats && <ErrorNotice error={error} />}
      {stats && (
        <Table.ScrollContainer minWidth={480}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Worker</Table.Th>
                <Table.Th>State</Table.Th>
                <Table.Th ta="right">Restarts</Table.Th>
                <Table.Th ta="right">Runs for</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {stats.workers_health.workers.map((worker) => (
                <Table.Tr
                  key={worker.name}
                  onClick={() => select(worker.name === selected ? undefined : worker.name)}
                  bg={worker.name === selected ? "var(--mantine-primary-color-light)" : ""}
                >
                  <Table.Td>
                    <UnstyledButton ff="monospace" fz="xs" aria-pressed={worker.name === selected}>
                      {worker.name}
                    </UnstyledButton>
                  </Table.Td>
                  <Table.Td>
                    <Badge
                      color={worker.is_ready
                        ? COLORS[worker.status]
                        : worker.status === "Running"
                        ? "yellow"
                        : COLORS[worker.status]}
                    >
                      {worker.status}
                      {worker.is_ready ? "" : ", not ready"}
                    </Badge>
                    {worker.reason && <Text size="xs" c="dimmed">{worker.reason}</Text>}
                  </Table.Td>
                  <Table.Td ta="right">{worker.restart_count}</Table.Td>
                  <Table.Td ta="right">
                    <Age time={worker.start_time} suffix="" />
                  </Table.Td>
                </Table.Tr>
              ))}
              {stats.workers_health.workers.length === 0 && (
                <Table.Tr>
                  <Table.Td colSpan={4}>
                    <Text size="sm" c="dimmed">No worker runs.</Text>
                  </Table.Td>
                </Table.Tr>
              )}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Section>
  );
}
