"""How each family of models writes tool calls, for those that make a model write one."""

from typing import NamedTuple

from radixway.core.parsers.reader import ToolFamily


class ToolCallForm(NamedTuple):
    """The text around calls: `first`, each within `opens` and `closes`, `between` two, `last`."""

    arguments: str
    first: str = ""
    opens: str = ""
    between: str = ""
    closes: str = ""
    last: str = ""


CALL_FORMS: dict[ToolFamily, ToolCallForm] = {
    "hermes": ToolCallForm("arguments", opens="<tool_call>\n", between="\n", closes="\n</tool_call>"),
    "llama3": ToolCallForm("parameters", between="; "),
    "mistral": ToolCallForm("arguments", first="[TOOL_CALLS][", between=", ", last="]"),
}


def forced_call_family(known: ToolFamily | None) -> ToolFamily:
    """Return the family whose form a forced call has: the `known` one, or Hermes for one without a form."""
    return known if known in CALL_FORMS else "hermes"
