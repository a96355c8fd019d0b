"""The latest requests as a list: rows read from their journals, searched newest first, page by page.

Nothing is kept for it: what a row shows, the request's way through the house has written down.
"""

from radixway.surfaces.requests.routes import request_routes
from radixway.surfaces.requests.rows import Row, row_of
from radixway.surfaces.requests.search import Page, Search, Wanted

__all__ = ["Page", "Row", "Search", "Wanted", "request_routes", "row_of"]
