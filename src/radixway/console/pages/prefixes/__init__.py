"""*Prefixes*: what prompts have in common, as a sunburst, a tree and a table; how hot, and by whom."""
