"""Users' tables as stimuli: read, scored, and written back with their own columns."""
