"""Allocators, struct layouts, workloads, sessions and results.  Never imports Qt."""
