"""*Rules*: what judges requests, edited: checked by line, compared, replayed on recent requests, applied."""
