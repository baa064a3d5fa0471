"""The standard, the pages for users and what hangs from each sentence, as Markdown that mkdocs makes a site of."""
