import { Kbd, Modal, Table, Text, Title } from "@mantine/core";

import { PAGES } from "./pages.ts";

/** Each key, or keys that are pressed together or one after the other. */
const GROUPS: { title: string; keys: [keys: string[], what: string][] }[] = [
  {
    title: "On every page",
    keys: [
      ...PAGES.map(({ key, label }): [string[], string] => [["g", key], label]),
      [["/"], "Search on the page"],
      [["Ctrl", "K"], "Search everything"],
      [["?"], "These keys"],
    ],
  },
  {
    title: "In the editor",
    keys: [
      [["Ctrl", "S"], "Save"],
      [["Ctrl", "Shift", "Enter"], "Save and deploy"],
      [["Alt", "↑"], "Move the transform up; Alt ↓ moves it down"],
    ],
  },
];

/** The keys of the console. */
export function KeysHelp({ isOpen, close }: { isOpen: boolean; close: () => void }) {
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      title="Keys"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {GROUPS.map(({ title, keys }) => (
        <section key={title} aria-label={title}>
          <Title order={3} size="xs" mt="sm">{title}</Title>
          <Table>
            <Table.Tbody>
              {keys.map(([pressed, what]) => (
                <Table.Tr key={what} h={32}>
                  <Table.Td w={170}>
                    {pressed.map((key) => <Kbd key={key} size="xs" mr={4}>{key}</Kbd>)}
                  </Table.Td>
                  <Table.Td>
                    <Text size="sm">{what}</Text>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </section>
      ))}
    </Modal>
  );
}
