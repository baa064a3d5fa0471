"""What stands in frames and payloads: msgpack, events in every form, endpoints."""
