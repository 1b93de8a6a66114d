import { Button, Grid, Group, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import type { KafkaConnection } from "headwater-client";
import { RotateCcwKey } from "lucide-react";

import { ConfirmModal } from "../../common/ConfirmModal.tsx";
import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { Section } from "../../common/Section.tsx";
import { NotDeployed } from "../NotDeployed.tsx";
import { usePipeline } from "../pipeline_context.ts";
import { useDeployment } from "../use_pipeline.ts";
import { Credentials } from "./Credentials.tsx";
import { OneRecord } from "./OneRecord.tsx";
import { Snippet } from "./Snippet.tsx";

/** How to read the outputs: credentials, programs that run as pasted, and one record as a proof. */
export function ConnectTab() {
  const flow = usePipeline();
  const queries = useQueryClient();
  const { data: deployment, error, refetch } = useDeployment(flow);
  const [isOpen, modal] = useDisclosure();
  if (deployment === null) return <NotDeployed what="credentials and topics" />;
  if (!deployment) return error && <ErrorNotice error={error} retry={() => refetch()} />;
  const sinks = deployment.sinks.filter((sink): sink is KafkaConnection => sink.type === "kafka");
  if (sinks.length === 0) {
    return <Text size="sm">This pipeline has no Kafka sink: its records become token prices.</Text>;
  }
  return (
    <Stack gap="lg">
      {sinks.map((sink) => (
        <Section key={sink.uid} title={`Output ${sink.name}`}>
          <Grid gap="lg">
            <Grid.Col span={{ base: 12, md: 5 }}>
              <Stack gap="sm">
                <Credentials sink={sink} />
                <OneRecord flow={flow} sink={sink.name} />
              </Stack>
            </Grid.Col>
            <Grid.Col span={{ base: 12, md: 7 }}>
              <Snippet snippets={sink.snippets} password={sink.password} />
            </Grid.Col>
          </Grid>
        </Section>
      ))}
      <Group gap="sm">
        <Button variant="default" leftSection={<RotateCcwKey size={14} />} onClick={modal.open}>
          Rotate the password…
        </Button>
        <Text size="xs" c="dimmed">
          The dead letters are in the topic{" "}
          {deployment.dead_letter.topic}, with the same credentials.
        </Text>
      </Group>
      <ConfirmModal
        title="Rotate the password?"
        text="Readers with the present password are disconnected, and can't connect again until they have the new one. The pipeline itself continues."
        action="Rotate"
        isOpen={isOpen}
        close={modal.close}
        work={async () => {
          await flow.rotateCredentials();
          await queries.invalidateQueries({ queryKey: ["pipeline", flow.id, "deployment"] });
        }}
      />
    </Stack>
  );
}
