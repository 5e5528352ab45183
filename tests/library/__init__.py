"""The rest of the library, and the repository itself."""
