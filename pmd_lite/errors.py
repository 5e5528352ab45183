"""The one exception a user is meant to read."""


class UserError(Exception):
    """Something outside the code is wrong: a file, an option, a missing package.

    The message says what is wrong, where (file:line when there is one) and what to do. The command line prints it
    without a traceback and exits with 2; anything else that escapes is a bug in this library.
    """
