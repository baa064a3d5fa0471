"""What reaches, drives and listens to a publisher, and judges nothing."""
