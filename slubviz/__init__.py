"""slubviz: a laboratory for the Linux slab allocators."""

__version__ = "0.1.0"
