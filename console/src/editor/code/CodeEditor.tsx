import { Box, useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";

import type { CodeProblem } from "../trial/problems.ts";
import { type CodeView, createView } from "./create_view.ts";

/** CodeMirror as a component. */
export function CodeEditor({ label, code, isScript, example, problems, onChange }: {
  label: string;
  code: string;
  isScript: boolean;
  example: unknown;
  problems: CodeProblem[];
  onChange: (code: string) => void;
}) {
  const target = useRef<HTMLDivElement>(null);
  const view = useRef<CodeView>(undefined);
  const latest = useRef({ onChange, example });
  latest.current = { onChange, example };
  const isDark = useComputedColorScheme("light") === "dark";

  useEffect(() => {
    view.current = createView({
      parent: target.current!,
      label,
      code,
      isScript,
      isDark,
      example: () => latest.current.example,
      onChange: (text) => latest.current.onChange(text),
    });
    return () => view.current?.destroy();
  }, [isScript, isDark]);
  useEffect(() => view.current?.setCode(code), [code]);
  useEffect(() => view.current?.setProblems(problems), [problems, code, isDark]);

  return (
    <Box
      ref={target}
      bd="1px solid var(--mantine-color-default-border)"
      bdrs="sm"
      style={{ overflow: "hidden" }}
    />
  );
}
