import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";

import { SignInPage } from "../signin/SignInPage.tsx";
import { cssVariables } from "./css_variables.ts";
import { nonce } from "./nonce.ts";
import { queryClient } from "./query_client.ts";
import { router } from "./router.tsx";
import { SessionProvider, useSession } from "./session.tsx";
import { theme } from "./theme.ts";

const MAX_NOTIFICATION_PX = 480;

export function App() {
  return (
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      cssVariablesResolver={cssVariables}
      getStyleNonce={() => nonce}
    >
      <Notifications position="bottom-right" notificationMaxHeight={MAX_NOTIFICATION_PX} />
      <QueryClientProvider client={queryClient}>
        <SessionProvider>
          <Pages />
        </SessionProvider>
      </QueryClientProvider>
    </MantineProvider>
  );
}

function Pages() {
  const { hw } = useSession();
  return hw ? <RouterProvider router={router} /> : <SignInPage />;
}
