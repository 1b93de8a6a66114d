import { CopyButton, Tooltip, UnstyledButton } from "@mantine/core";

/** A text that a click copies. `shown` replaces it on the page; a secret is not in the tooltip either. */
export function CopyText({ text, shown = text, isSecret = false }: {
  text: string;
  shown?: string;
  isSecret?: boolean;
}) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : isSecret ? "Copy" : `Copy ${text}`}>
          <UnstyledButton onClick={copy} ff="monospace" fz="xs">{shown}</UnstyledButton>
        </Tooltip>
      )}
    </CopyButton>
  );
}
