"""The golden vectors: their generators, and access to the data from Python.

>>> from kvwire import vectors
>>> for test in vectors.load("hash/v1_block_key").tests:
...     print(test.id, vectors.expand(test.input.tokens), test.expected.unsigned)
"""

from kvwire.vectors.access import contents, decode, load, names
from kvwire.vectors.inputs import expand

__all__ = ["contents", "decode", "expand", "load", "names"]
