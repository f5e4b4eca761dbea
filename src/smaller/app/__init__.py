"""From a table to an answer: the command line and what stands behind it; it uses the library as any user would."""
