import { createRootRoute, createRoute, createRouter, redirect } from "@tanstack/react-router";

import { DatasetPage } from "../datasets/DatasetPage.tsx";
import { DatasetsPage } from "../datasets/DatasetsPage.tsx";
import { EditTab } from "../editor/EditTab.tsx";
import { readEdit } from "../editor/search.ts";
import { NotFoundPage } from "../frame/NotFoundPage.tsx";
import { RouteError } from "../frame/RouteError.tsx";
import { Shell } from "../frame/Shell.tsx";
import { KeysPage } from "../keys/KeysPage.tsx";
import { ConnectTab } from "../pipeline/connect/ConnectTab.tsx";
import { DeadLettersTab } from "../pipeline/deadletters/DeadLettersTab.tsx";
import { readLetters } from "../pipeline/deadletters/search.ts";
import { FilterTab } from "../pipeline/FilterTab.tsx";
import { HistoryTab, readHistory } from "../pipeline/history/HistoryTab.tsx";
import { LogsTab } from "../pipeline/LogsTab.tsx";
import { OverviewTab } from "../pipeline/OverviewTab.tsx";
import { PipelinePage } from "../pipeline/PipelinePage.tsx";
import { readRange } from "../pipeline/range.ts";
import { readTail, TailTab } from "../pipeline/tail/TailTab.tsx";
import { readOverviewSearch } from "../pipelines/overview_search.ts";
import { PipelinesPage } from "../pipelines/PipelinesPage.tsx";
import { PricesPage } from "../prices/PricesPage.tsx";
import { readPrices, readToken } from "../prices/search.ts";
import { TokenPage } from "../prices/TokenPage.tsx";
import { readStream, StreamPage } from "../streams/StreamPage.tsx";
import { readStreams, StreamsPage } from "../streams/StreamsPage.tsx";

const rootRoute = createRootRoute({ component: Shell, notFoundComponent: NotFoundPage });
const underRoot = { getParentRoute: () => rootRoute };

const indexRoute = createRoute({
  ...underRoot,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/pipelines" });
  },
});
const pipelinesRoute = createRoute({
  ...underRoot,
  path: "/pipelines",
  validateSearch: readOverviewSearch,
  component: PipelinesPage,
});
const streamsRoute = createRoute({
  ...underRoot,
  path: "/streams",
  validateSearch: readStreams,
  component: StreamsPage,
});
const streamRoute = createRoute({
  ...underRoot,
  path: "/streams/$chain/$entity",
  validateSearch: readStream,
  component: StreamPage,
});
const datasetsRoute = createRoute({ ...underRoot, path: "/datasets", component: DatasetsPage });
const datasetRoute = createRoute({ ...underRoot, path: "/datasets/$id", component: DatasetPage });
const pricesRoute = createRoute({
  ...underRoot,
  path: "/prices",
  validateSearch: readPrices,
  component: PricesPage,
});
const tokenRoute = createRoute({
  ...underRoot,
  path: "/prices/$chain/$address",
  validateSearch: readToken,
  component: TokenPage,
});
const keysRoute = createRoute({ ...underRoot, path: "/keys", component: KeysPage });
const pipelineRoute = createRoute({
  ...underRoot,
  path: "/pipelines/$id",
  component: PipelinePage,
});

const underPipeline = { getParentRoute: () => pipelineRoute };

const tabRoutes = [
  createRoute({
    ...underPipeline,
    path: "/",
    beforeLoad: ({ params }) => {
      throw redirect({ to: "/pipelines/$id/overview", params });
    },
  }),
  createRoute({
    ...underPipeline,
    path: "/overview",
    validateSearch: readRange,
    component: OverviewTab,
  }),
  createRoute({ ...underPipeline, path: "/edit", validateSearch: readEdit, component: EditTab }),
  createRoute({ ...underPipeline, path: "/tail", validateSearch: readTail, component: TailTab }),
  createRoute({
    ...underPipeline,
    path: "/dead-letters",
    validateSearch: readLetters,
    component: DeadLettersTab,
  }),
  createRoute({
    ...underPipeline,
    path: "/history",
    validateSearch: readHistory,
    component: HistoryTab,
  }),
  createRoute({ ...underPipeline, path: "/connect", component: ConnectTab }),
  createRoute({ ...underPipeline, path: "/filters/$uid", component: FilterTab }),
  createRoute({ ...underPipeline, path: "/logs", component: LogsTab }),
] as const;

export const router = createRouter({
  basepath: "/console",
  routeTree: rootRoute.addChildren([
    indexRoute,
    pipelinesRoute,
    streamsRoute,
    streamRoute,
    datasetsRoute,
    datasetRoute,
    pricesRoute,
    tokenRoute,
    keysRoute,
    pipelineRoute.addChildren(tabRoutes),
  ]),
  defaultErrorComponent: RouteError,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
