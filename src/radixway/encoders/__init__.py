"""Text to vectors, and the heads that read them: one pass of a small model feeds everything that judges text.

Needs radixway[semantic]; nothing here is imported until something is configured that uses it.
"""
