"""Files of other tools, one format a module, read into captures, comparisons, contexts or rollouts."""
