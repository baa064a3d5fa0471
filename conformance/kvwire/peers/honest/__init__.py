"""Publishers that keep the standard and are unlike the reference: whoever speaks of one of them is wrong.

The second control group, beside the mutants. ``mark`` is what an honest peer is, ``catalog`` has them all. Some are the
reference in another configuration, some change one part of it, and the engines of ``paged`` and ``radix`` have nothing
of its structure.
"""
