import { Box, Text } from "@mantine/core";

const COLORS: Record<string, string> = {
  "+": "var(--mantine-color-green-light)",
  "-": "var(--mantine-color-red-light)",
  "@": "var(--mantine-color-default-hover)",
};

/** A unified diff: removed lines are red, added ones green, and both begin with their sign. */
export function UnifiedDiff({ title, text }: { title: string; text: string }) {
  const lines = text.split("\n").filter((line) =>
    !line.startsWith("---") && !line.startsWith("+++")
  );
  return (
    <Box component="section" aria-label={title}>
      <Text size="xs" fw={600} mb={4}>{title}</Text>
      <Box
        ff="monospace"
        fz="xs"
        bd="1px solid var(--mantine-color-default-border)"
        bdrs="sm"
        style={{ overflowX: "auto" }}
        tabIndex={0}
        role="region"
        aria-label={`Changes of ${title}`}
      >
        {lines.map((line, index) => (
          <Box key={index} px="sm" bg={COLORS[line[0] ?? ""] ?? ""} style={{ whiteSpace: "pre" }}>
            {line || " "}
          </Box>
        ))}
      </Box>
    </Box>
  );
}
