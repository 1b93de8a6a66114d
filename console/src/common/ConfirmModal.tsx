import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";

import { ErrorNotice } from "./ErrorNotice.tsx";

/** Says what an action removes, and asks before it is done. */
export function ConfirmModal({ title, text, action, isOpen, close, work }: {
  title: string;
  text: string;
  action: string;
  isOpen: boolean;
  close: () => void;
  work: () => Promise<unknown>;
}) {
  const doing = useMutation({ mutationFn: work, onSuccess: close });
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      title={title}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Stack>
        <Text size="sm">{text}</Text>
        {doing.error && <ErrorNotice error={doing.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>Cancel</Button>
          <Button color="red" loading={doing.isPending} onClick={() => doing.mutate()}>
            {action}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
