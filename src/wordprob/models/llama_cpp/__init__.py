"""GGUF files run by llama.cpp, with their weights quantised as they are in the file."""
