import { Code, HoverCard } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { exact, short } from "../../common/numbers.ts";
import type { TransformRates } from "./rates.ts";
import { BOX_HEIGHT, BOX_WIDTH } from "./sizes.ts";

const HOVER_LINES = 12;
const TITLE_CHARACTERS = 18;
const TEXT_CHARACTERS = 21;

/** The source, a transform or a sink. A hover shows the whole expression, or the first lines of the script. */
export function Box({ x, y, kind, title, text, rates, configId, uid }: {
  x: number;
  y: number;
  kind: "source" | "redis_set_filter" | "v8" | "sink";
  title: string;
  text: string;
  rates?: TransformRates | undefined;
  configId?: string;
  uid?: string;
}) {
  const isTransform = kind === "v8" || kind === "redis_set_filter";
  const color = kind === "source"
    ? "water"
    : kind === "sink"
    ? "green"
    : kind === "v8"
    ? "indigo"
    : "grape";
  return (
    <HoverCard width={440} openDelay={250} disabled={!isTransform} position="bottom">
      <HoverCard.Target>
        <g transform={`translate(${x} ${y})`}>
          <rect
            width={BOX_WIDTH}
            height={BOX_HEIGHT}
            rx={6}
            fill="var(--mantine-color-body)"
            stroke="var(--mantine-color-default-border)"
            strokeWidth={1}
          />
          <rect
            width={4}
            height={BOX_HEIGHT - 16}
            x={6}
            y={8}
            rx={2}
            fill={`var(--mantine-color-${color}-filled)`}
          />
          <BoxTitle kind={kind} title={title} configId={configId} uid={uid} />
          <text
            x={20}
            y={46}
            fontSize={11}
            fill="var(--mantine-color-dimmed)"
            fontFamily={isTransform ? "var(--mantine-font-family-monospace)" : undefined}
          >
            {cut(text.trim().split("\n")[0] ?? "", TEXT_CHARACTERS)}
          </text>
          {rates?.dropShare !== undefined && (
            <text x={20} y={BOX_HEIGHT + 16} fontSize={11} fill="var(--mantine-color-dimmed)">
              {(rates.dropShare * 100).toFixed(rates.dropShare > 0.1 ? 0 : 1)} % dropped
            </text>
          )}
          {rates !== undefined && rates.errors > 0 && configId && (
            <Link
              to="/pipelines/$id/dead-letters"
              params={{ id: configId }}
              search={uid ? { transform: uid } : {}}
            >
              <text
                x={BOX_WIDTH - 4}
                y={BOX_HEIGHT + 16}
                textAnchor="end"
                fontSize={11}
                fontWeight={600}
                fill="var(--mantine-color-red-text)"
              >
                <title>{exact(rates.errors)} errors in the last hour</title>
                {short(rates.errors)} errors
              </text>
            </Link>
          )}
        </g>
      </HoverCard.Target>
      <HoverCard.Dropdown>
        <Code block fz="xs">{text.split("\n").slice(0, HOVER_LINES).join("\n")}</Code>
      </HoverCard.Dropdown>
    </HoverCard>
  );
}

/** The title: of a filter, a link to its values; of a script, a link to the editor. */
function BoxTitle({ kind, title, configId, uid }: {
  kind: string;
  title: string;
  configId: string | undefined;
  uid: string | undefined;
}) {
  const text = (
    <text x={20} y={26} fontSize={13} fontWeight={600} fill="var(--mantine-color-text)">
      {cut(title, TITLE_CHARACTERS)}
    </text>
  );
  if (!configId || !uid) return text;
  return kind === "redis_set_filter"
    ? (
      <Link to="/pipelines/$id/filters/$uid" params={{ id: configId, uid }} title="Its values">
        {text}
      </Link>
    )
    : <Link to="/pipelines/$id/edit" params={{ id: configId }}>{text}</Link>;
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
