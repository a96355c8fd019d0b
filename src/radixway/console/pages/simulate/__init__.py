"""*Simulate*: policies compared on a trace, one's own or one that is made up."""

from radixway.console.page import ConsolePage
from radixway.console.pages.simulate.page import build_simulate_page

PAGE = ConsolePage(name="simulate", path="/simulate", icon="science", key="s", build=build_simulate_page)
