"""The commands of the command line: a file for each, and the steps they share."""
