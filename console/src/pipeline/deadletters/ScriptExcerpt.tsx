import { Box, Text } from "@mantine/core";

const AROUND = 4;

/** The lines of a script around the one that failed, which is marked. */
export function ScriptExcerpt({ script, line, isSame, revision }: {
  script: string;
  line: number;
  isSame: boolean;
  revision: number | null;
}) {
  const lines = script.split("\n");
  const first = Math.max(1, line - AROUND);
  return (
    <Box>
      <Box
        ff="monospace"
        fz="xs"
        bg="var(--mantine-color-default-hover)"
        py="xs"
        bdrs="sm"
        style={{ overflowX: "auto" }}
        tabIndex={0}
        role="region"
        aria-label="The script"
      >
        {lines.slice(first - 1, line + AROUND).map((text, index) => {
          const isMarked = first + index === line;
          return (
            <Box
              key={index}
              px="sm"
              bg={isMarked ? "var(--mantine-color-red-light)" : ""}
              style={{ whiteSpace: "pre" }}
            >
              <Text span inherit c={isMarked ? "red" : "dimmed"}>
                {String(first + index).padStart(4)}
                {isMarked ? " ▸ " : "   "}
              </Text>
              {text}
            </Box>
          );
        })}
      </Box>
      {!isSame && (
        <Text size="xs" c="dimmed" mt={4}>
          The letter is from revision{" "}
          {revision}; this is the saved script, which may have changed since.
        </Text>
      )}
    </Box>
  );
}
