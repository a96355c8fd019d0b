"""Wire protocols: each turns bytes into a Request and a Reply back into bytes, and decides nothing."""
