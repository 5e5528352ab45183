"""The equations, algorithms and appendices of the paper, and what every method must keep."""
