"""Named studies: what is trained, what is measured of every run, where it is stored, what is made of it."""
