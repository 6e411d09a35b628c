"""Step-Audio 2 (StepFun): a Qwen2 that hears what a person says and answers in words and speech tokens, in turn."""
