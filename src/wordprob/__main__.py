"""Lets ``python -m wordprob`` be the command line."""

from wordprob.cli import main

if __name__ == "__main__":
    main()
