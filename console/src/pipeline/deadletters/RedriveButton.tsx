import { Button } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Flow, LetterSelection } from "headwater-client";
import { RotateCw } from "lucide-react";

import { RedriveModal } from "./RedriveModal.tsx";

/** Opens the dialog that sends letters through the running revision again. */
export function RedriveButton({ flow, selection, label, variant = "filled" }: {
  flow: Flow;
  selection: LetterSelection;
  label: string;
  variant?: "filled" | "default";
}) {
  const [isOpen, { open, close }] = useDisclosure();
  return (
    <>
      <Button variant={variant} leftSection={<RotateCw size={14} />} onClick={open}>{label}</Button>
      {isOpen && <RedriveModal flow={flow} selection={selection} close={close} />}
    </>
  );
}
