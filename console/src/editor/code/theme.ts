import { HighlightStyle } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** The colours of code, from the library's theme. */
export function colorsOf(isDark: boolean): HighlightStyle {
  const shade = (name: string) => `var(--mantine-color-${name}-${isDark ? 3 : 9})`;
  const color = (name: string) => `var(--mantine-color-${name}-text)`;
  return HighlightStyle.define([
    { tag: [tags.keyword, tags.modifier], color: shade("grape") },
    { tag: [tags.string, tags.special(tags.string)], color: color("green") },
    { tag: [tags.number, tags.bool, tags.null], color: color("orange") },
    {
      tag: [tags.function(tags.variableName), tags.function(tags.propertyName)],
      color: color("water"),
    },
    { tag: [tags.propertyName], color: color("blue") },
    { tag: [tags.comment], color: "var(--mantine-color-dimmed)", fontStyle: "italic" },
    { tag: [tags.typeName, tags.className], color: shade("grape") },
  ]);
}

export function themeOf(isDark: boolean, isScript: boolean): Extension {
  return EditorView.theme({
    "&": {
      height: isScript ? "calc(100dvh - 330px)" : "120px",
      fontSize: "13px",
      backgroundColor: "transparent",
    },
    "&.cm-focused": { outline: "none" },
    // An outline would lie under the line numbers.
    "&.cm-focused::after": {
      content: '""',
      position: "absolute",
      inset: 0,
      zIndex: 300,
      border: "2px solid var(--mantine-primary-color-filled)",
      pointerEvents: "none",
    },
    ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", lineHeight: "1.5" },
    ".cm-gutters": {
      backgroundColor: "var(--mantine-color-body)",
      border: "none",
      color: "var(--mantine-color-dimmed)",
    },
    ".cm-activeLine": { backgroundColor: "var(--mantine-color-default-hover)" },
    ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
    // The library's marks are images in data: addresses, which the policy of the page does not allow.
    ".cm-lintRange-error": mark("red"),
    ".cm-lintRange-warning": mark("yellow"),
    ".cm-lint-marker-error": { content: "normal", color: "var(--mantine-color-red-text)" },
    ".cm-lint-marker-error::before": { content: '"✕"' },
    ".cm-lint-marker-warning": { content: "normal", color: "var(--mantine-color-yellow-text)" },
    ".cm-lint-marker-warning::before": { content: '"!"' },
    ".cm-tooltip": {
      backgroundColor: "var(--mantine-color-body)",
      border: "1px solid var(--mantine-color-default-border)",
      color: "var(--mantine-color-text)",
    },
  }, { dark: isDark });
}

function mark(color: string) {
  return {
    backgroundImage: "none",
    textDecoration: `underline wavy var(--mantine-color-${color}-text)`,
  };
}
