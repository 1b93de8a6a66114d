"""The documentation as a site of static files that needs no network and no server."""
