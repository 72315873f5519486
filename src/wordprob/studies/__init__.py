"""Studies: from a corpus or a table to the numbers and figures of a paper."""
