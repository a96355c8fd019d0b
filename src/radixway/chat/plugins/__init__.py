"""What answers may use besides a model: built-in plugins, those of others by their manifests, MCP servers.

`Plugins` finds them, `Chains` answers with one where the gateway's own workers answer.
"""

from radixway.chat.plugins.chains import Chains, chosen
from radixway.chat.plugins.shelf import Plugins

__all__ = ["Chains", "Plugins", "chosen"]
