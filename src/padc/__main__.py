"""`python -m padc`: the command line `padc`."""

from padc.tools.padc import main

if __name__ == "__main__":
    main()
