"""`/v1/responses` and `/v1/conversations`: OpenAI's stateful surface, over chats.

A response is an assistant's message, its job goes down the gateway's road as a chat completion, and its
events follow from its token log.
"""
