--- The environment variables that ponder reads: for `ponder doctor` and the manual page.

---@type {name: string, about: string, secret: boolean?}[]
return {
    { name = "PONDER_MODEL", about = "the model where none is named: provider:model" },
    { name = "PONDER_PROVIDER", about = "the provider of model names that name none" },
    { name = "PONDER_PROMPTS", about = "directory of prompt files to use for the built-in ones" },
    { name = "OPENAI_API_KEY", about = "key for openai models", secret = true },
    { name = "OPENAI_BASE_URL", about = "another server for openai models, such as "
        .. "http://127.0.0.1:8080/v1 of llama.cpp" },
    { name = "OPENAI_ORG_ID", about = "organization that openai calls are for" },
    { name = "OPENAI_PROJECT_ID", about = "project that openai calls are for" },
    { name = "ANTHROPIC_API_KEY", about = "key for anthropic models", secret = true },
    { name = "ANTHROPIC_AUTH_TOKEN", about = "token for anthropic models, in place of the key",
        secret = true },
    { name = "ANTHROPIC_BASE_URL", about = "another server for anthropic models" },
    { name = "OLLAMA_HOST", about = "address of the Ollama server (127.0.0.1:11434)" },
    { name = "OLLAMA_API_KEY", about = "key for an Ollama server that wants one", secret = true },
    { name = "NO_COLOR", about = "if it is not empty, nothing is printed in colour" },
}
