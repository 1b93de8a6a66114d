import {
  Alert,
  Anchor,
  Button,
  Center,
  Code,
  Group,
  Image,
  Paper,
  PasswordInput,
  Stack,
  Text,
  Title,
} from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Headwater, Unauthenticated } from "headwater-client";
import { useState } from "react";

import { useSession } from "../app/session.tsx";
import { textOf } from "../common/errors.ts";
import { useCode } from "./use_code.ts";
import icon from "../icon.svg";

/** Asks for an API key, and tries it before it is kept. */
export function SignInPage() {
  const { signIn, notice } = useSession();
  const [key, setKey] = useState("");
  const code = useCode();
  const trial = useMutation({
    mutationFn: async (entered: string) => {
      await new Headwater({ key: entered, retries: 0 }).me();
      return entered;
    },
    onSuccess: (entered) => signIn(entered),
  });
  return (
    <Center mih="100vh" component="main" p="md">
      <Paper
        withBorder
        p="xl"
        w={420}
        component="form"
        onSubmit={(event) => {
          event.preventDefault();
          trial.mutate(key.trim());
        }}
      >
        <Stack gap="md">
          <Group gap="sm">
            <Image src={icon} w={32} h={32} alt="" />
            <Title order={1}>Headwater</Title>
          </Group>
          {notice && <Alert color="yellow" title="Signed out">{notice}</Alert>}
          {code.isPending && <Text size="sm" role="status">Signing in…</Text>}
          {code.error && (
            <Alert color="yellow" title="The link does not work any more">
              {textOf(code.error)}
            </Alert>
          )}
          <PasswordInput
            label="API key"
            description="The key of a local installation is in the file api-key of its data directory, .headwater by default."
            placeholder="hw_live_…"
            value={key}
            onChange={(event) => setKey(event.currentTarget.value)}
            error={trial.error && refusalOf(trial.error)}
            autoComplete="off"
            autoFocus
          />
          <Button type="submit" size="sm" loading={trial.isPending} disabled={!key.trim()}>
            Sign in
          </Button>
          <Text size="xs" c="dimmed">
            The key is kept for this tab alone, and is sent to this server alone.{" "}
            <Code fz="xs">headwater keys sign-in-link</Code> prints a link that needs no key.{" "}
            <Anchor href="/docs" size="xs">The API's description</Anchor> needs no key.
          </Text>
        </Stack>
      </Paper>
    </Center>
  );
}

function refusalOf(error: Error): string {
  return error instanceof Unauthenticated ? "This key is not valid." : textOf(error);
}
