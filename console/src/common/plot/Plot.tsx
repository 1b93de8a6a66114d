import "uplot/dist/uPlot.min.css";

import { Box, Group, Text, useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import UPlot from "uplot";

import { duration, short, usd } from "../numbers.ts";
import { type Mark, marksPlugin } from "./marks.ts";
import { valuesPlugin } from "./values.ts";

/** A line of a plot. */
export interface Line {
  label: string;
  color: string;
  /** `dots`: without a line; `dotted`: a line with a dot at each value, which spans missing values. */
  look?: "line" | "dotted" | "dots";
}

export type Unit = "/s" | "ms" | "USD" | "";

const NO_MARKS: Mark[] = [];

/** One plot. All plots of a page share a crosshair, and the values at it are beside the title. */
export default function Plot(
  { title, unit, series, data, marks = NO_MARKS, height, range, isLog = false }: {
    title: string;
    unit: Unit;
    series: Line[];
    data: [number[], ...(number | null)[][]];
    marks?: Mark[];
    height: number;
    /** The lowest and the highest value that is shown; by default from 0 on. */
    range?: [number, number];
    /** Whether the scale is logarithmic. */
    isLog?: boolean;
  },
) {
  const { ref, width } = useElementSize();
  const target = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot>(undefined);
  const marksNow = useRef(marks);
  marksNow.current = marks;
  const rangeNow = useRef(range);
  rangeNow.current = range;
  const scheme = useComputedColorScheme("light");
  const values = useRef<(HTMLElement | null)[]>([]);
  const time = useRef<HTMLParagraphElement>(null);
  const write = { ms: duration, USD: usd, "/s": short, "": short }[unit];

  useEffect(() => {
    if (!target.current || width === 0) return;
    const color = (name: string) =>
      getComputedStyle(document.documentElement).getPropertyValue(name);
    const text = color("--mantine-color-dimmed");
    const grid = {
      stroke: color(scheme === "dark" ? "--mantine-color-dark-5" : "--mantine-color-gray-2"),
      width: 1,
    };
    const axis = { stroke: text, grid, ticks: { show: false }, font: "11px system-ui" };
    plot.current = new UPlot(
      {
        width,
        height,
        legend: { show: false },
        cursor: { sync: { key: "pipeline" }, points: { size: 6 }, y: false },
        tzDate: (time) => UPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
        scales: {
          y: {
            distr: isLog ? 3 : 1,
            range: (_, __, most) => rangeNow.current ?? [0, most > 0 ? most * 1.1 : 1],
          },
        },
        axes: [
          { ...axis, size: 24, space: 80, values: "{HH}:{mm}" },
          {
            ...axis,
            size: unit === "USD" ? 80 : 56,
            space: 32,
            // A logarithmic scale has more lines than labels: the others are null.
            values: (_, values: (number | null)[]) =>
              values.map((value) => value === null ? "" : write(value)),
          },
        ],
        series: [
          {},
          ...series.map(({ look = "line", ...line }) => {
            const stroke = color(`--mantine-color-${line.color}-text`);
            return {
              stroke,
              width: 1.5,
              spanGaps: look === "dotted",
              points: { show: look !== "line", size: look === "dots" ? 8 : 4, fill: stroke },
              ...(look === "dots" ? { paths: () => null } : {}),
            };
          }),
        ],
        plugins: [
          marksPlugin(() => marksNow.current, text),
          valuesPlugin(
            series,
            (value) => write(value) + (unit === "/s" ? unit : ""),
            () => ({ values: values.current, time: time.current }),
          ),
        ],
      },
      data,
      target.current,
    );
    return () => plot.current?.destroy();
  }, [width, height, scheme, series, isLog]);

  useEffect(() => plot.current?.setData(data, false), [data]);
  useEffect(() => {
    const [times] = data;
    plot.current?.setScale("x", { min: times[0]!, max: times.at(-1)! });
  }, [data[0][0]]);

  return (
    <Box ref={ref} component="figure" m={0} role="img" aria-label={title}>
      <Group gap="sm" h={24}>
        <Text size="xs" fw={600}>{title}</Text>
        {series.map((line, column) => (
          <Group key={line.label} gap={4}>
            <Box w={8} h={8} bg={`var(--mantine-color-${line.color}-text)`} bdrs="xl" />
            <Text size="xs" c="dimmed">
              {line.label}{" "}
              <span
                ref={(element) => {
                  values.current[column] = element;
                }}
              />
            </Text>
          </Group>
        ))}
        <Text size="xs" c="dimmed" ml="auto" ref={time} />
      </Group>
      <div ref={target} />
    </Box>
  );
}
