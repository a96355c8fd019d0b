"""Data that ships: the demonstration model and the default configuration."""
