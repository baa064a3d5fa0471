"""The tester, tested: whether verdicts stayed what they were, and whether every known fault is heard."""
