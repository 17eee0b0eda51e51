"""Programs of others, differentiated by fgrad in place of the library that they were written for.

They are what the documentation of each library shows.  Nothing in a program is adapted to fgrad: it takes the library
that differentiates as its argument, and is run once with each in the same process.  Values and derivatives are
compared, or the errors that both raise.  There is a file per library, which is skipped where that is not installed.
``pip install fgrad[real]`` installs them all.  ``-m real`` runs every program; what is not so marked is quick and runs
always.
"""
