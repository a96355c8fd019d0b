"""Which tools a model is offered: from a database of them, or of a client's long list.

The last user message is compared with what each tool says of itself and with queries that want it.

State, and the file that owns it:

- `profile_cache.py`, `client_tools.py`: vectors of tools and clients' lists of them, by digest; bounded,
  `check()` recounts; a list is read once however many requests wait
"""

from radixway.semantics.tools.database import load_tools
from radixway.semantics.tools.profile_cache import ToolProfileCache
from radixway.semantics.tools.tool_definition import ToolDefinition
from radixway.semantics.tools.tool_index import (
    ToolIndex,
    ToolScores,
    build_profile,
    tool_texts,
)
from radixway.semantics.tools.tool_selection import (
    ToolLimits,
    select_tools,
    tool_limits,
)

__all__ = [
    "ToolDefinition",
    "ToolIndex",
    "ToolLimits",
    "ToolProfileCache",
    "ToolScores",
    "build_profile",
    "load_tools",
    "select_tools",
    "tool_limits",
    "tool_texts",
]
