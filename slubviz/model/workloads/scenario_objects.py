"""What the program of a scenario keeps: numbered places for objects.

The check at the end of a scenario knows of every object that lies in a place, and of no other.
"""

SCENARIO_PLACES = 512


class scenario_places(struct):
    of: array[ptr, SCENARIO_PLACES]


places: scenario_places


@inline
def alloc_to(place, size):
    """Allocate an object and keep it in a place."""
    places.of[place] = kmalloc(size, GFP_KERNEL)


@inline
def alloc_atomic_to(place, size):
    """The same without waiting, as in an interrupt."""
    places.of[place] = kmalloc(size, GFP_ATOMIC)


@inline
def free_from(place):
    """Free the object in a place, which is empty before the free begins."""
    object = places.of[place]
    places.of[place] = NULL
    kfree(cast(free_object, object))
