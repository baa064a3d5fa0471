"""The standard as data: registry, profiles, schemas, statement and adapter protocol; and whether they agree."""
