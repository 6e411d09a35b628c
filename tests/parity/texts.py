"""What the oracle of the chat model is asked, which tests want to know without transformers."""

CONVERSATION = [
    {"role": "system", "content": "You are talking with somebody. Answer in one short sentence."},
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "The capital of France is Paris."},
    {"role": "user", "content": "And how many people lived there in 1998? Naïve guesses are fine…"},
]
TEXTS = ["It's 12,500 km — l'été\n\n  déjà!", "snake_case(x) == 3.14;\tok?", "日本語 🙂", "I'LL they've   gone"]
