"""What several processes on one database tell each other: that something changed, and what answers say.

Nothing here is the truth: all of it may be lost, and is made again from the database.
"""

from radixway.chat.coordination.backends import make_coordination
from radixway.chat.coordination.reconnecting_tasks import ReconnectingTasks
from radixway.chat.coordination.shared_notifier import SharedNotifier, TopicTransport

__all__ = ["ReconnectingTasks", "SharedNotifier", "TopicTransport", "make_coordination"]
