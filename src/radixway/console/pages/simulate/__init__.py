"""*Simulate*: policies compared on a trace, one's own or one that is made up."""

from radixway.console.page import Page
from radixway.console.pages.simulate.page import build

PAGE = Page(name="simulate", path="/simulate", icon="science", key="s", build=build)
