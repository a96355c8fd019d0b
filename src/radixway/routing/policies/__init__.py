"""Policies: each orders candidate workers, a short file each."""
