"""The reference: hashing, wire, endpoints, cache engine, publisher and consumer, written to be copied from.

Imports nothing here, so that ``kvwire_reference.hashing`` needs no socket library.
"""
