"""Publishers of ours that are driven as any other: the reference, and those that break one sentence each."""
