import type UPlot from "uplot";

/** Something that happened, for example a deploy. */
export interface Mark {
  /** In seconds. */
  time: number;
  label: string;
}

const LABEL_WIDTH = 28;

/** Draws a dashed line at each mark, with its label. */
export function marksPlugin(marks: () => Mark[], color: string): UPlot.Plugin {
  const draw = (plot: UPlot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color;
    ctx.font = `${10 * devicePixelRatio}px system-ui`;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    const gap = 3 * devicePixelRatio;
    for (const { time, label } of marks()) {
      const { min = 0, max = 0 } = plot.scales["x"] ?? {};
      if (time < (min ?? 0) || time > (max ?? 0)) continue;
      const x = plot.valToPos(time, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const isAtTheEnd = x + LABEL_WIDTH * devicePixelRatio > bbox.left + bbox.width;
      ctx.textAlign = isAtTheEnd ? "right" : "left";
      ctx.fillText(`r${label}`, isAtTheEnd ? x - gap : x + gap, bbox.top + 10 * devicePixelRatio);
    }
    ctx.restore();
  };
  return { hooks: { draw: [draw] } };
}
