"""The web pages at `/console`: what the gateway says over HTTP, drawn for people.

They run in a process of their own (`radixway console`) and know the gateway by its public HTTP API alone.

Adding a page:

1. A file in `pages/`, or a package with a `page.py`, and a line in `pages/__init__.py`. The file has
   `async def build(visit: PageVisit) -> None`, which draws with NiceGUI's `ui` and `components.py`, and
   `PAGE = ConsolePage(name="rules", path="/rules", icon="rule", key="r", build=build)`. `key`: `g r` leads
   there. `also`: further paths (`"/requests/{request_id:path}"`), whose values are in
   `visit.request.path_params`; the query is `visit.request.query_params`. Its address is `/console/rules`;
   links are `visit.link("/rules")`.
2. A file `texts/rules.toml`: each text in every language, by key (`"rules.title" = { en = …, zh = … }`). In a
   page `visit.say("rules.title")` and `visit.say("rules.changed", count=3)`; `page.rules` is its name in the
   navigation. No text stands in a page itself: a test looks.
3. Data comes from `visit.gateway`: `await visit.gateway.get_json("/list_workers")`, `post_json`,
   `send_request`, `stream_answer`. They raise `ConsoleCallError`; `async with visit.catch_call_errors():`
   around the work of a click shows it, and `visit.refresh_every(2.0, refresh)` calls a coroutine while the
   page is open. Both take a visitor who is signed out to the sign-in page, and show the banner while the
   gateway does not answer.
4. What clients and models wrote (names, URLs, prompts, answers) is shown by `ui.label`, `ui.code` and table
   cells as text, never by `ui.html`; by `ui.markdown` with `sanitize=True` at most.
5. `assets/console.css` has the classes: `rw-page-title`, `rw-card`, `rw-grid`, `rw-row`, `rw-stack`,
   `rw-muted`, `rw-figure`, `rw-facts`, `rw-chip` with `good`, `warn`, `bad`; colours are `var(--rw-…)` and
   follow light and dark by themselves. Tailwind's classes are not loaded. What `/` focuses has `data-search`.
   `templates/` has the rows of tables and the options of charts.
6. A test in `tests/console/` drives it in the browser: the fixtures are in `tests/console/conftest.py`.
"""

from radixway.console.page import ConsolePage, PageVisit

__all__ = ["ConsolePage", "PageVisit"]
