"""CSM (Sesame): a Llama over frames of Mimi's codes, and a smaller one over the codes of each frame."""
