"""The attacks, a module per sort; each has ``ATTACKS``, and stands in ``kvwire.selftest.hostile.catalog``."""
