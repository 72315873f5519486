"""Models on a server that speaks the OpenAI completions protocol: vLLM, SGLang, llama.cpp and others."""
