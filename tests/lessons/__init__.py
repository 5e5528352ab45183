"""The lessons, their kit and their tools."""
