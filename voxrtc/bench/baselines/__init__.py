"""What others do, to be measured beside ours in the same run."""
