"""One gateway in several processes: a supervisor, and children that are peers of each other.

Start reading at `supervisor.py`. A child runs `gateway/process_child.py`; `sibling_proxy.py` makes any of
them answer for all, by `sibling_rules.py`; `control_messages.py` has the messages between supervisor and
children. `docs/decisions/0018` has a table of what becomes of each piece of state.

State, and the file that owns it:

- `supervisor.py`: the listening sockets, and which child serves which
- `process_group.py`: the children, as one of them knows them by the supervisor's latest message
- `tenant_limits.py`: what tenants have in flight and have used, in the supervisor; `check()`
- `worker_state.py`: what calls have changed of the workers; the first child's is right, the others copy it
"""

from radixway.gateway.processes.process_count import check_processes, count_processes
from radixway.gateway.processes.supervisor import ProcessFailedError, ProcessSupervisor
from radixway.gateway.processes.tenant_limits import LimitsAuthority

__all__ = [
    "LimitsAuthority",
    "ProcessFailedError",
    "ProcessSupervisor",
    "check_processes",
    "count_processes",
]
