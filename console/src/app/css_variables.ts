import type { CSSVariablesResolver } from "@mantine/core";

/** The colours of words on light backgrounds, dark enough to be read on their own tint. */
const LIGHT: Record<string, string> = {
  red: "#b02525",
  yellow: "#7d4e00",
  green: "#1f6b2f",
  blue: "#1864ab",
  violet: "#5f3dc4",
  orange: "#a33a08",
  gray: "#495057",
  water: "#095c6b",
};
/** On dark backgrounds the third shade of each colour is bright enough. */
const DARK_SHADE = 3;

/** Makes the words of the library's theme readable: their contrast is at least 4.5 in both schemes. */
export const cssVariables: CSSVariablesResolver = ({ colors }) => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "#575e64",
    "--mantine-color-placeholder": "#6b7278",
    "--mantine-color-red-filled": colors.red[9],
    ...words((name) => LIGHT[name]!),
  },
  dark: {
    "--mantine-color-dimmed": colors.dark[1],
    "--mantine-color-placeholder": colors.dark[2],
    ...words((name) => colors[name]![DARK_SHADE]!),
  },
});

function words(colorOf: (name: string) => string): Record<string, string> {
  return Object.fromEntries(
    Object.keys(LIGHT).flatMap((name) => [
      [`--mantine-color-${name}-text`, colorOf(name)],
      [`--mantine-color-${name}-light-color`, colorOf(name)],
    ]),
  );
}
