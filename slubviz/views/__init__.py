"""Qt windows and widgets: they read Snapshots and send Session commands."""
