import type { OverviewItem } from "headwater-client";
import { memo } from "react";

import { Age } from "../common/Age.tsx";
import { Figure } from "../common/Figure.tsx";
import { duration, recentRate, sum } from "../common/numbers.ts";
import { PlainLink } from "../common/PlainLink.tsx";
import { Sparkline } from "../common/Sparkline.tsx";
import { StateBadge } from "../common/StateBadge.tsx";
import { lookOf } from "./state.ts";

interface Props {
  item: OverviewItem;
  height: number;
  isSelected: boolean;
  select: (id: string, isSelected: boolean) => void;
}

/**
 * One pipeline in the list, in plain elements: a frame of a scroll draws several rows. A refresh keeps the objects of
 * pipelines that have not changed.
 */
export const PipelineRow = memo(function PipelineRow({ item, height, isSelected, select }: Props) {
  const { messages_received: received, messages_sent: sent, source } = item;
  const errors = item.errors && sum(item.errors);
  const sourceName = source && `${source.chain} ${source.entity}`;
  return (
    <tr className={isSelected ? "pipeline-row selected" : "pipeline-row"} style={{ height }}>
      <td>
        <input
          type="checkbox"
          className="plain-checkbox mantine-focus-auto"
          aria-label={`Select ${item.name}`}
          checked={isSelected}
          onChange={(event) => select(item.id, event.currentTarget.checked)}
        />
      </td>
      <td>
        <StateBadge look={lookOf(item)} />
      </td>
      <td>
        <PlainLink
          className="plain-link name"
          path={`/pipelines/${item.id}/overview`}
          title={item.name}
        >
          {item.name}
        </PlainLink>
        {item.tags.length > 0 && (
          <div className="tags">
            {item.tags.map((tag) => (
              <PlainLink
                key={tag}
                className="plain-tag"
                path={`/pipelines?tag=${encodeURIComponent(tag)}`}
              >
                {tag}
              </PlainLink>
            ))}
          </div>
        )}
      </td>
      {sourceName
        ? <td className="source" title={sourceName}>{sourceName}</td>
        : <td className="dimmed">–</td>}
      <td className="number">
        <Rate counts={received} color="water" label="Records read in the last hour" />
      </td>
      <td className="number">
        <Rate counts={sent} color="green" label="Records written in the last hour" />
      </td>
      <td className="number">
        {errors
          ? (
            <PlainLink
              className="plain-link errors"
              path={`/pipelines/${item.id}/dead-letters`}
            >
              <Figure value={errors} />
            </PlainLink>
          )
          : <Figure value={errors} />}
      </td>
      {item.avg_data_age_ms === null
        ? <td className="number dimmed">–</td>
        : <td className="number">{duration(item.avg_data_age_ms)}</td>}
      <td className="number">
        <Figure value={item.lag} />
      </td>
      <td className="number">
        {item.revision}{" "}
        <span className="dimmed">
          <Age time={item.updated_at} />
        </span>
      </td>
    </tr>
  );
});

function Rate({ counts, color, label }: { counts: number[] | null; color: string; label: string }) {
  if (!counts) return <span className="dimmed">–</span>;
  return (
    <div className="rate">
      <Figure value={recentRate(counts)} unit="/s" />
      <Sparkline values={counts} color={color} label={label} />
    </div>
  );
}
