"""`/v1/responses` and `/v1/conversations`: OpenAI's stateful API, over chats.

A response is an assistant's message. Its job passes the pipeline as a chat completion, and its events are
read from its token log.
"""
