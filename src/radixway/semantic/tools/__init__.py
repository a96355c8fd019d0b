"""Which tools a model is offered: from a database of them, or of a client's long list.

The last user message is compared with what each tool says of itself and with queries that want it.
"""

from radixway.semantic.tools.database import load_tools
from radixway.semantic.tools.index import Profile, Scores, ToolIndex, ToolTexts, profile_of, texts_of
from radixway.semantic.tools.profiles import Profiles
from radixway.semantic.tools.selection import LEAST_SCORE, Chosen, Limits, Selection, limits_of, select
from radixway.semantic.tools.tool import Tool

__all__ = [
    "LEAST_SCORE",
    "Chosen",
    "Limits",
    "Profile",
    "Profiles",
    "Scores",
    "Selection",
    "Tool",
    "ToolIndex",
    "ToolTexts",
    "limits_of",
    "load_tools",
    "profile_of",
    "select",
    "texts_of",
]
