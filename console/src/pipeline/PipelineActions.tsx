import { ActionIcon, Button, Group, Menu } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import type { Deployment, Flow, OverviewItem } from "headwater-client";
import { Ellipsis, Pause, Play, Rocket, Square, Trash2 } from "lucide-react";

import { ConfirmModal } from "../common/ConfirmModal.tsx";
import { useAction } from "./use_action.ts";

/** Deploy, pause and resume; behind a menu what removes things. */
export function PipelineActions({ flow, state, deployment }: {
  flow: Flow;
  state: OverviewItem["state"] | undefined;
  deployment: Deployment | null | undefined;
}) {
  const navigate = useNavigate();
  const [isTeardownOpen, teardownModal] = useDisclosure();
  const [isDeleteOpen, deleteModal] = useDisclosure();
  const deploy = useAction(flow, "is deployed", () => flow.deploy());
  const pause = useAction(flow, "is paused", () => flow.pause());
  const resume = useAction(flow, "runs again", () => flow.resume());
  const teardown = useAction(flow, "is torn down", () => flow.teardown());
  const remove = useAction(flow, "is deleted", () => flow.delete());
  const isDeployed = state === "deployed" || state === "failing" || state === "paused";
  const isNewer = deployment && deployment.revision !== flow.revision;
  return (
    <Group gap="xs" wrap="nowrap">
      {state === "paused"
        ? (
          <Button
            leftSection={<Play size={14} />}
            loading={resume.isPending}
            onClick={() => resume.mutate()}
          >
            Resume pipeline
          </Button>
        )
        : isDeployed && (
          <Button
            variant="default"
            leftSection={<Pause size={14} />}
            loading={pause.isPending}
            onClick={() => pause.mutate()}
          >
            Pause pipeline
          </Button>
        )}
      {(state === "draft" || (isDeployed && isNewer)) && (
        <Button
          leftSection={<Rocket size={14} />}
          loading={deploy.isPending}
          onClick={() => deploy.mutate()}
        >
          Deploy revision {flow.revision}
        </Button>
      )}
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="default" size={30} aria-label="More">
            <Ellipsis size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            leftSection={<Square size={14} />}
            disabled={!isDeployed}
            onClick={teardownModal.open}
          >
            Tear down…
          </Menu.Item>
          <Menu.Item color="red" leftSection={<Trash2 size={14} />} onClick={deleteModal.open}>
            Delete…
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <ConfirmModal
        title={`Tear ${flow.name} down?`}
        text="Its workers, topics and credentials are removed, and its readers lose what they have not read. The configuration and the values of its filters stay."
        action="Tear down"
        isOpen={isTeardownOpen}
        close={teardownModal.close}
        work={() => teardown.mutateAsync()}
      />
      <ConfirmModal
        title={`Delete ${flow.name}?`}
        text="The configuration, its revisions, its deployment and the values of its filters are removed. This can't be undone."
        action="Delete"
        isOpen={isDeleteOpen}
        close={deleteModal.close}
        work={async () => {
          await remove.mutateAsync();
          await navigate({ to: "/pipelines" });
        }}
      />
    </Group>
  );
}
