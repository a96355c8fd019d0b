"""The latest requests as a list: rows read from their journals, searched newest first, page by page. Nothing
is stored for it.
"""

from radixway.api.requests.routes import request_routes
from radixway.api.requests.search import RequestFilter, RequestRow, RequestSearch, SearchPage, build_row

__all__ = ["RequestFilter", "RequestRow", "RequestSearch", "SearchPage", "build_row", "request_routes"]
