import { Tabs } from "@mantine/core";
import { Link, useLocation } from "@tanstack/react-router";

import { TABS } from "./tabs.ts";

/** Links to the tabs, so that each has an address of its own. */
export function PipelineTabs({ id }: { id: string }) {
  const { pathname } = useLocation();
  const open = TABS.find(({ to }) => pathname.endsWith(to.replace("$id", id)))?.to ?? null;
  return (
    <Tabs value={open}>
      <Tabs.List>
        {TABS.map(({ to, label }) => (
          <Tabs.Tab
            key={to}
            value={to}
            component="a"
            renderRoot={(props) => <Link {...props} to={to} params={{ id }} />}
          >
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
    </Tabs>
  );
}
