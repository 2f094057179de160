--- The environment variables that ponder reads: for `ponder doctor` and the manual page.

---@type {name: string, about: string, secret: boolean?}[]
return {
    { name = "PONDER_MODEL", about = "the default model: provider:model" },
    { name = "PONDER_PROVIDER", about = "the default provider, for model names without one" },
    { name = "PONDER_PROMPTS", about = "directory of prompt files that replace the built-in ones" },
    { name = "OPENAI_API_KEY", about = "key for openai models", secret = true },
    { name = "OPENAI_BASE_URL", about = "another server for openai models, such as "
        .. "http://127.0.0.1:8080/v1 of llama.cpp" },
    { name = "OPENAI_ORG_ID", about = "organization to bill for openai calls" },
    { name = "OPENAI_PROJECT_ID", about = "project to bill for openai calls" },
    { name = "ANTHROPIC_API_KEY", about = "key for anthropic models", secret = true },
    { name = "ANTHROPIC_AUTH_TOKEN", about = "token for anthropic models, instead of a key",
        secret = true },
    { name = "ANTHROPIC_BASE_URL", about = "another server for anthropic models" },
    { name = "OLLAMA_HOST", about = "address of the Ollama server (127.0.0.1:11434)" },
    { name = "OLLAMA_API_KEY", about = "key for an Ollama server that needs one", secret = true },
    { name = "NO_COLOR", about = "if not empty, turns colours off" },
}
