"""The strongest peers for personalised online prediction, on the experiments' deals."""
