import type UPlot from "uplot";

import type { Line } from "./Plot.tsx";

/**
 * Shows the values at the crosshair, or the newest ones, and the time of the crosshair. They change with each move of
 * the mouse, so the texts are written without React.
 */
export function valuesPlugin(
  lines: Line[],
  textOf: (value: number) => string,
  elements: () => { values: (HTMLElement | null)[]; time: HTMLElement | null },
): UPlot.Plugin {
  const show = ({ data: [times, ...columns], cursor: { idx: index } }: UPlot) => {
    const { values, time } = elements();
    const shown = index ?? times.length - 1;
    lines.forEach(({ look }, line) => {
      const column = columns[line] ?? [];
      let at = shown;
      while (look === "dotted" && at > 0 && column[at] == null) at -= 1;
      write(values[line], column[at] == null ? "–" : textOf(column[at]!));
    });
    const seconds = index == null ? undefined : times[index];
    write(time, seconds ? `${utc(seconds)} UTC` : "");
  };
  return { hooks: { ready: [show], setData: [show], setCursor: [show] } };
}

function write(element: HTMLElement | null | undefined, text: string): void {
  if (element && element.textContent !== text) element.textContent = text;
}

function utc(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
}
