"""Worker processes: one way to start, talk to and end them."""
