"""CosyVoice 2 (FunAudioLLM): a Qwen2 that continues text with speech tokens, of which a flow makes sound in a given voice."""
