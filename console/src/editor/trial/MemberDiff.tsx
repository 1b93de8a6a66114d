import { Box, Text } from "@mantine/core";
import { stringifyJson } from "headwater-client";

const MOST_CHARACTERS = 300;

/** What differs between two records: removed, added and changed members; how many are the same. */
export function MemberDiff({ before, after }: { before: unknown; after: unknown }) {
  const [old, now] = [membersOf(before), membersOf(after)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])];
  const differing = names.filter((name) => old[name] !== now[name]);
  const same = names.length - differing.length;
  return (
    <Box ff="monospace" fz="xs" style={{ overflowWrap: "anywhere" }}>
      {differing.flatMap((name) => [
        name in old && (
          <Box key={`-${name}`} px={6} bg="var(--mantine-color-red-light)">
            - {name}: {old[name]}
          </Box>
        ),
        name in now && (
          <Box key={`+${name}`} px={6} bg="var(--mantine-color-green-light)">
            + {name}: {now[name]}
          </Box>
        ),
      ])}
      <Text inherit c="dimmed" px={6}>
        {differing.length === 0 ? `unchanged, ${same} members` : `${same} members unchanged`}
      </Text>
    </Box>
  );
}

function membersOf(value: unknown): Record<string, string> {
  if (typeof value !== "object" || value === null) return { "": stringifyJson(value) ?? "" };
  return Object.fromEntries(
    Object.entries(value).map((
      [name, member],
    ) => [name, (stringifyJson(member) ?? "").slice(0, MOST_CHARACTERS)]),
  );
}
