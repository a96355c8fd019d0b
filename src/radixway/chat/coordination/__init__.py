"""Coordination of several processes on one database: news of changes, and the tokens of answers.

Nothing here is the truth: all of it may be lost, and is made again from the database.
"""

from radixway.chat.coordination.backends import make_coordination
from radixway.chat.coordination.shared_notifier import ReconnectingTasks, SharedNotifier, TopicTransport

__all__ = ["ReconnectingTasks", "SharedNotifier", "TopicTransport", "make_coordination"]
