"""Options that every front end shares."""
