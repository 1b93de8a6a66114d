/** The tabs of a pipeline. */
export const TABS = [
  { to: "/pipelines/$id/overview", label: "Overview" },
  { to: "/pipelines/$id/edit", label: "Edit" },
  { to: "/pipelines/$id/tail", label: "Tail" },
  { to: "/pipelines/$id/dead-letters", label: "Dead letters" },
  { to: "/pipelines/$id/history", label: "History" },
  { to: "/pipelines/$id/connect", label: "Connect" },
  { to: "/pipelines/$id/logs", label: "Log" },
] as const;
