import { AppShell, Burger, Group, Image, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Outlet, useLocation } from "@tanstack/react-router";
import { useEffect } from "react";

import icon from "../icon.svg";
import { HealthDot } from "./HealthDot.tsx";
import { KeysHelp } from "./KeysHelp.tsx";
import { OutageNotice } from "./OutageNotice.tsx";
import { OwnerMenu } from "./OwnerMenu.tsx";
import { Rail } from "./Rail.tsx";
import { Search } from "./Search.tsx";
import { ThemeSwitch } from "./ThemeSwitch.tsx";
import { usePageKeys } from "./use_page_keys.ts";

/** The frame of every page: the rail on the left, the bar on top. */
export function Shell() {
  const [isOpen, { toggle, close }] = useDisclosure(false);
  const { pathname } = useLocation();
  useEffect(close, [pathname, close]);
  const [isHelpOpen, help] = useDisclosure(false);
  usePageKeys(help.open);
  return (
    <AppShell
      header={{ height: 48 }}
      navbar={{ width: 176, breakpoint: "md", collapsed: { mobile: !isOpen } }}
      padding="md"
      transitionDuration={120}
    >
      <AppShell.Header>
        <Group h="100%" px="md" gap="sm" wrap="nowrap">
          <Burger
            opened={isOpen}
            onClick={toggle}
            hiddenFrom="md"
            size="sm"
            aria-label="Menu"
          />
          <Image src={icon} w={24} h={24} alt="" />
          <Text fw={600} visibleFrom="xs">Headwater</Text>
          <HealthDot />
          <Group ml="auto" gap="xs" wrap="nowrap">
            <Search />
            <ThemeSwitch />
            <OwnerMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs">
        <Rail />
      </AppShell.Navbar>
      <AppShell.Main>
        <OutageNotice />
        <KeysHelp isOpen={isHelpOpen} close={help.close} />
        <Outlet />
      </AppShell.Main>
    </AppShell>
  );
}
