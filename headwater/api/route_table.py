"""Finds the route of a request by its path and method.

The middleware Routing looks the route up once, before any other middleware needs it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.api.guarded_routes import GuardedRoute

RULE = "headwater.rule"
"""Key of the ASGI scope for the RouteRule of a guarded route. It is absent when the method is not allowed."""


@dataclass(slots=True)
class _Node:
    """A path in the tree of all paths.

    Attributes:
        segments: The children by fixed segment.
        parameter: The child for a segment that is a parameter.
        routes: The routes that end at this path, by method.
    """

    segments: dict[str, "_Node"] = field(default_factory=dict)
    parameter: "_Node | None" = None
    routes: dict[str, APIRoute] = field(default_factory=dict)

    def child(self, segment: str) -> "_Node":
        """Return the child for a segment of a path template, and add it when there is none."""
        if not segment.startswith("{"):
            return self.segments.setdefault(segment, _Node())
        self.parameter = self.parameter or _Node()
        return self.parameter


class RouteTable(BaseRoute):
    """The routes of the API as a tree of path segments.

    The table is the first route of FastAPI's router; the mounts of the console and of /docs follow it. A lookup costs
    one dict access per segment of the path, however many routes there are. Where one route has a fixed segment and
    another route has a parameter, the fixed segment wins: `/flow/datasets` never means the configuration with the id
    "datasets".
    """

    def __init__(self, routes: Iterable[APIRoute]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for segment in route.path_format.split("/"):
                node = node.child(segment)
            node.routes |= dict.fromkeys(route.methods or (), route)

    def find(self, path: str, method: str) -> tuple[APIRoute, dict[str, str]] | None:
        """Return the route of a request and its path parameters; None when no route has this path.

        Where no route of the path has the method, the first route of the path is returned.
        """
        values: list[str] = []
        node = self._find_node(path, values)
        if node is None or not node.routes:
            return None
        route = node.routes.get(method) or next(iter(node.routes.values()))
        return route, dict(zip(route.param_convertors, values, strict=True))

    def _find_node(self, path: str, values: list[str]) -> _Node | None:
        """Return the node of a path, and append the values of the path's parameters to `values`."""
        node = self._root
        for segment in path.split("/"):
            child = node.segments.get(segment)
            if child is None and segment:
                child = node.parameter
                values.append(segment)
            if child is None:
                return None
            node = child
        return node

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if "route" in scope else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the route that Routing has put into the scope.

        Raises HTTPException 405 when the route does not support the method.
        """
        route: APIRoute = scope["route"]
        if scope["method"] not in (route.methods or ()):
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": self._allowed_methods(scope["path"])})
        await route.handle(scope, receive, send)

    def _allowed_methods(self, path: str) -> str:
        node = self._find_node(path, [])
        methods = set(node.routes) if node else set()
        return ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))


class Routing:
    """Middleware that puts the route, its path parameters and its rule into the ASGI scope.

    Routing sends no errors. FastAPI's router sends 404 and 405 after the other middlewares, so that a request with a
    method that is not allowed needs a valid key too.
    """

    def __init__(self, app: ASGIApp, table: RouteTable) -> None:
        self._app = app
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self._table.find(scope["path"], scope["method"]) if scope["type"] == "http" else None
        if match is not None:
            route, scope["path_params"] = match
            scope["route"] = route
            if isinstance(route, GuardedRoute) and scope["method"] in (route.methods or ()):
                scope[RULE] = route.rule
        await self._app(scope, receive, send)
