"""Time travel: every run is recorded, and any moment of it can be visited, searched, changed and kept."""
