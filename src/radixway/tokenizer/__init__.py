"""Tokenizers and chat templates: load once, render, decode."""
