"""The dashboards, a file each."""

from observability.boards.caches import CACHES
from observability.boards.chats import CHATS
from observability.boards.cost import COST
from observability.boards.flow import FLOW
from observability.boards.security import SECURITY
from observability.boards.training import TRAINING
from observability.boards.workers import WORKERS

BOARDS = (FLOW, CACHES, SECURITY, COST, WORKERS, TRAINING, CHATS)
