import { Button, Menu, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ChevronDown, LogOut } from "lucide-react";

import { useHeadwater, useSession } from "../app/session.tsx";

/** How often the key is checked: pages that read nothing by themselves sign out too when it ends. */
const EVERY_MS = 15_000;

/** The owner of the key, its scopes, and the way out. */
export function OwnerMenu() {
  const hw = useHeadwater();
  const { signOut } = useSession();
  const { data: key } = useQuery({
    queryKey: ["me"],
    queryFn: ({ signal }) => hw.me({ signal }),
    refetchInterval: EVERY_MS,
  });
  return (
    <Menu position="bottom-end" width={260}>
      <Menu.Target>
        <Button variant="subtle" color="gray" rightSection={<ChevronDown size={14} />}>
          {key?.owner ?? "…"}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Key {key?.key_id}</Menu.Label>
        <Text size="xs" px="sm" pb="xs">{key?.scopes.join(", ")}</Text>
        <Menu.Divider />
        <Menu.Item leftSection={<LogOut size={14} />} onClick={() => signOut()}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
