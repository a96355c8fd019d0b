"""Chats that never get lost: accounts, branching messages, the jobs that answer them, and their token logs.

The truth is in SQL: SQLite in `RADIXWAY_HOME`, or PostgreSQL by its URL.
"""
