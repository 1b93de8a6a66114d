import { Badge, Group, NavLink, ScrollArea, Text } from "@mantine/core";
import type { DeadLetter } from "headwater-client";

import { Age } from "../../common/Age.tsx";

const HEIGHT = 420;
const COLORS = { delivered: "green", dropped: "gray", failed: "red" };

/** The newest letters of a group. */
export function LetterList({ letters, chosen, choose, isCut }: {
  letters: DeadLetter[];
  chosen: DeadLetter | undefined;
  choose: (letter: DeadLetter) => void;
  isCut: boolean;
}) {
  return (
    <ScrollArea.Autosize mah={HEIGHT} viewportProps={{ tabIndex: 0, "aria-label": "Letters" }}>
      {letters.map((letter) => (
        <NavLink
          key={letter.id}
          component="button"
          active={letter.id === chosen?.id}
          variant="light"
          onClick={() => choose(letter)}
          label={
            <Group justify="space-between" wrap="nowrap">
              <Text span size="xs" ff="monospace">{letter.id}</Text>
              {letter.redriven && (
                <Badge size="xs" color={COLORS[letter.redriven.outcome]}>
                  {letter.redriven.outcome}
                </Badge>
              )}
              <Age time={letter.time} />
            </Group>
          }
        />
      ))}
      {isCut && (
        <Text size="xs" c="dimmed" p="xs">Only the newest {letters.length} letters are shown.</Text>
      )}
    </ScrollArea.Autosize>
  );
}
