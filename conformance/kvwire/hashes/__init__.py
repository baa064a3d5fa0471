"""Every hash function that anybody is known to use, and every known mistake."""
