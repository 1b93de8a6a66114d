import { createTheme, type MantineColorsTuple } from "@mantine/core";

const water: MantineColorsTuple = [
  "#e3fafc",
  "#c5f0f5",
  "#95dfe9",
  "#5fc9d8",
  "#35b3c6",
  "#1a9db2",
  "#0f879b",
  "#0b7285",
  "#095c6b",
  "#064754",
];

/** Dense tables and calm colours: the one accent is `water`, every other colour has a meaning. */
export const theme = createTheme({
  primaryColor: "water",
  primaryShade: { light: 7, dark: 7 },
  colors: { water },
  defaultRadius: "sm",
  respectReducedMotion: true,
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
  fontSizes: { xs: "12px", sm: "13px", md: "14px", lg: "16px", xl: "20px" },
  headings: { fontWeight: "600", sizes: { h1: { fontSize: "20px" }, h2: { fontSize: "15px" } } },
  components: {
    Button: { defaultProps: { size: "xs" } },
    TextInput: { defaultProps: { size: "xs" } },
    Select: { defaultProps: { size: "xs", allowDeselect: false } },
    SegmentedControl: { defaultProps: { size: "xs" } },
    Tooltip: { defaultProps: { openDelay: 200, withArrow: true } },
    Table: {
      defaultProps: { verticalSpacing: 6, horizontalSpacing: "sm", highlightOnHover: true },
      styles: { table: { fontVariantNumeric: "tabular-nums" } },
    },
    Notification: { styles: { description: { color: "var(--mantine-color-text)" } } },
    Skeleton: { defaultProps: { opacity: 0.4 } },
    Badge: { defaultProps: { variant: "light", tt: "none", fw: 500 } },
  },
});
