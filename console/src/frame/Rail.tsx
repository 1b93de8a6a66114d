import { NavLink } from "@mantine/core";
import { Link, useLocation } from "@tanstack/react-router";

import { PAGES } from "./pages.ts";

/** The links to the main pages. */
export function Rail() {
  const { pathname } = useLocation();
  return PAGES.map(({ to, label, Icon }) => (
    <NavLink
      key={to}
      component={Link}
      to={to}
      label={label}
      leftSection={<Icon size={16} />}
      active={pathname.includes(to)}
      variant="light"
    />
  ));
}
