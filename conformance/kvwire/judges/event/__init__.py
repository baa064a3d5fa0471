"""Event: the map, its keys, and the values that events show (spec/event.md)."""
