"""Coordination of several processes on one database: notifications, and the tokens of answers.

All of it may be lost, and is restored from the database.
"""

from radixway.chat.coordination.backends import make_coordination
from radixway.chat.coordination.shared_notifier import ReconnectingTasks, SharedNotifier, TopicTransport

__all__ = ["ReconnectingTasks", "SharedNotifier", "TopicTransport", "make_coordination"]
