"""Sessions: the conversations of agents that know nothing of tokens, each a tree of calls.

Pure bookkeeping over the store; who calls workers and answers agents is `api/sessions/`.
"""

from radixway.trajectories.sessions.archive import SessionArchive
from radixway.trajectories.sessions.call import Finish, PendingCall, SessionCall
from radixway.trajectories.sessions.history_match import CallRequest, match_history
from radixway.trajectories.sessions.prompt_builder import PromptBuilder, SessionPrompt
from radixway.trajectories.sessions.session import (
    AgentSession,
    SessionExistsError,
    SessionRegistry,
    TooManySessionsError,
)
from radixway.trajectories.sessions.training_sample import TrainingSample, make_samples

__all__ = [
    "AgentSession",
    "CallRequest",
    "Finish",
    "PendingCall",
    "PromptBuilder",
    "SessionArchive",
    "SessionCall",
    "SessionExistsError",
    "SessionPrompt",
    "SessionRegistry",
    "TooManySessionsError",
    "TrainingSample",
    "make_samples",
    "match_history",
]
