"""Answers that are used again for questions that mean the same.

Scoped by who asks what of which model; a verifier stands behind every match of vectors.
"""
