"""What a learner sees: figures, widgets and exercise checks. The rest of the library never needs this part."""
