"""What to distil, from whom and how much: losses, actions on alpha, the search, and the strategies."""
