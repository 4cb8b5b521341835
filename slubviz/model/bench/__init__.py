"""Measures the simulator itself: how fast it runs, starts, compiles and copies its state.

``figures`` is what a measurement gives, ``suite`` does the measuring.  Nothing here belongs to the
simulation: this is the one part of the model that looks at a wall clock.
"""
