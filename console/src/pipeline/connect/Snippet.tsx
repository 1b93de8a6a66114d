import {
  ActionIcon,
  Code,
  CopyButton,
  Group,
  ScrollArea,
  SegmentedControl,
  Stack,
  Tooltip,
} from "@mantine/core";
import type { KafkaConnection } from "headwater-client";
import { Copy, CopyCheck } from "lucide-react";
import { useState } from "react";

type Language = keyof KafkaConnection["snippets"];
const LANGUAGES: { value: Language; label: string }[] = [
  { value: "python", label: "Python" },
  { value: "node", label: "Node" },
  { value: "java", label: "Java" },
  { value: "kcat", label: "kcat" },
];

/** A complete program that reads the topic, in four languages. The password is copied, not shown. */
export function Snippet({ snippets, password }: Pick<KafkaConnection, "snippets" | "password">) {
  const [language, setLanguage] = useState<Language>("python");
  const shown = password ? snippets[language].replaceAll(password, "••••••••") : snippets[language];
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <SegmentedControl
          aria-label="Language"
          data={LANGUAGES}
          value={language}
          onChange={(value) => setLanguage(value as Language)}
        />
        <CopyButton value={snippets[language]}>
          {({ copied, copy }) => (
            <Tooltip label={copied ? "Copied" : "Copy the program"}>
              <ActionIcon variant="default" size={30} aria-label="Copy the program" onClick={copy}>
                {copied ? <CopyCheck size={16} /> : <Copy size={16} />}
              </ActionIcon>
            </Tooltip>
          )}
        </CopyButton>
      </Group>
      <ScrollArea.Autosize mah={360} viewportProps={{ tabIndex: 0, "aria-label": "The program" }}>
        <Code block fz="xs">{shown}</Code>
      </ScrollArea.Autosize>
    </Stack>
  );
}
