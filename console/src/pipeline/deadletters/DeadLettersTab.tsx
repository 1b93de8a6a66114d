import { Stack } from "@mantine/core";
import { useSearch } from "@tanstack/react-router";

import { Empty } from "../../common/Empty.tsx";
import { ErrorNotice } from "../../common/ErrorNotice.tsx";
import { Rows } from "../../common/Rows.tsx";
import { Section } from "../../common/Section.tsx";
import { useDelayed } from "../../common/use_delayed.ts";
import { NotDeployed } from "../NotDeployed.tsx";
import { usePipeline } from "../pipeline_context.ts";
import { useDeployed } from "../use_pipeline.ts";
import { GroupDetail } from "./GroupDetail.tsx";
import { GroupTable } from "./GroupTable.tsx";
import { RedriveButton } from "./RedriveButton.tsx";
import { isGroup } from "./search.ts";

/** Why records failed: groups of letters, the line of the script, the records, and the way to send them again. */
export function DeadLettersTab() {
  const flow = usePipeline();
  const search = useSearch({ from: "/pipelines/$id/dead-letters" });
  const { data: groups, error, isPending, refetch } = useDeployed(
    flow,
    ["letters", "summary"],
    (each, signal) => each.deadLetters.summary({ signal }),
    10_000,
  );
  const isSlow = useDelayed(isPending);
  if (groups === null) return <NotDeployed what="dead letters" />;
  if (!groups) {
    return error ? <ErrorNotice error={error} retry={() => refetch()} /> : isSlow ? <Rows /> : null;
  }
  if (groups.length === 0) {
    return (
      <Empty title="No dead letters">
        A record that a script or a sink can't process appears here, with the reason. It never stops
        the others.
      </Empty>
    );
  }
  const open = groups.find((group) => isGroup(group, search)) ??
    groups.find((group) => group.transform_uid === search.transform) ?? groups[0]!;
  return (
    <Stack gap="lg">
      <Section
        title="Dead letters by error"
        right={<RedriveButton flow={flow} selection={{}} label="Redrive all…" variant="default" />}
      >
        {error && <ErrorNotice error={error} />}
        <GroupTable flow={flow} groups={groups} open={open} />
      </Section>
      <GroupDetail
        key={`${open.error} ${open.transform_uid} ${open.line}`}
        flow={flow}
        group={open}
      />
    </Stack>
  );
}
