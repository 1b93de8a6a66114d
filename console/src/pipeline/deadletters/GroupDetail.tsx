import { Grid, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { DeadLetter, Flow, LetterGroup } from "headwater-client";
import { Wrench } from "lucide-react";
import { useState } from "react";

import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { LinkButton } from "../../common/links.tsx";
import { JsonView } from "../../common/JsonView.tsx";
import { Section } from "../../common/Section.tsx";
import { recordValue } from "../../records/record_text.ts";
import { LetterList } from "./LetterList.tsx";
import { nameOf } from "./names.ts";
import { RedriveButton } from "./RedriveButton.tsx";
import { ScriptExcerpt } from "./ScriptExcerpt.tsx";

const LETTERS = 100;

/** The letters of a group, and one of them with the line that could not process it. */
export function GroupDetail({ flow, group }: { flow: Flow; group: LetterGroup }) {
  const [chosen, choose] = useState<DeadLetter>();
  const { data: page, error } = useQuery({
    queryKey: ["pipeline", flow.id, "letters", group.error, group.transform_uid],
    queryFn: ({ signal }) =>
      flow.deadLetters.page({
        error: group.error,
        transform: group.transform_uid,
        limit: LETTERS,
        signal,
      }),
  });
  const letters = page?.items.filter(({ line }) => line === group.line);
  const letter = chosen ?? letters?.[0];
  const transform = flow.pipeline.transforms?.find(({ uid }) => uid === group.transform_uid);
  const selection = { error: group.error, transform: group.transform_uid };
  return (
    <Section
      title={`${group.error} in ${nameOf(flow, group.transform_uid)}`}
      right={
        <Group gap="xs">
          {transform && (
            <LinkButton
              variant="default"
              leftSection={<Wrench size={14} />}
              to="/pipelines/$id/edit"
              params={{ id: flow.id }}
              search={{ error: group.error, transform: group.transform_uid }}
            >
              Mend…
            </LinkButton>
          )}
          <RedriveButton flow={flow} selection={selection} label="Redrive these…" />
        </Group>
      }
    >
      {error && <ErrorNotice error={error} />}
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, md: 4 }}>
          {letters && (
            <LetterList
              letters={letters}
              chosen={letter}
              choose={choose}
              isCut={page?.cursor !== null}
            />
          )}
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 8 }}>
          {letter && (
            <Stack gap="sm">
              <Text size="sm" ff="monospace" c="red" style={{ overflowWrap: "anywhere" }}>
                {letter.error}: {letter.message}
              </Text>
              {transform?.type === "v8" && letter.line !== null && (
                <ScriptExcerpt
                  script={transform.script}
                  line={letter.line}
                  isSame={letter.revision === flow.revision}
                  revision={letter.revision}
                />
              )}
              <JsonView value={recordValue(letter)} />
            </Stack>
          )}
        </Grid.Col>
      </Grid>
    </Section>
  );
}
