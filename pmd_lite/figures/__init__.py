"""Plain numbers in, a figure out."""
