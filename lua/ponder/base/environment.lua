--- The environment variables that ponder reads.

local environment = {}

---@class ponder.Variable
---@field name string
---@field about string
---@field kind "key"|"address"|"run"|nil a provider's key, or the address of its server; "run":
---  another that influences a run
---@field provider string?

---@type ponder.Variable[]
environment.LIST = {
    { name = "PONDER_MODEL", kind = "run", about = "the default model: provider:model" },
    { name = "PONDER_PROVIDER", kind = "run",
        about = "the default provider, for model names without one" },
    { name = "PONDER_PROMPTS", kind = "run",
        about = "directory of prompt files that replace the built-in ones" },
    { name = "OPENAI_API_KEY", kind = "key", provider = "openai", about = "key for openai models" },
    { name = "OPENAI_BASE_URL", kind = "address", provider = "openai",
        about = "another server for openai models, such as http://127.0.0.1:8080/v1 of llama.cpp" },
    { name = "OPENAI_ORG_ID", about = "organization to bill for openai calls" },
    { name = "OPENAI_PROJECT_ID", about = "project to bill for openai calls" },
    { name = "ANTHROPIC_API_KEY", kind = "key", provider = "anthropic",
        about = "key for anthropic models" },
    { name = "ANTHROPIC_AUTH_TOKEN", kind = "key", provider = "anthropic",
        about = "token for anthropic models, instead of a key" },
    { name = "ANTHROPIC_BASE_URL", kind = "address", provider = "anthropic",
        about = "another server for anthropic models" },
    { name = "OLLAMA_HOST", kind = "address", provider = "ollama",
        about = "address of the Ollama server (127.0.0.1:11434)" },
    { name = "OLLAMA_API_KEY", kind = "key", provider = "ollama",
        about = "key for an Ollama server that needs one" },
    { name = "GEMINI_API_KEY", kind = "key", provider = "gemini", about = "key for gemini models" },
    { name = "GOOGLE_API_KEY", kind = "key", provider = "gemini",
        about = "key for gemini models, if GEMINI_API_KEY is not set" },
    { name = "AZURE_OPENAI_API_KEY", kind = "key", provider = "azure",
        about = "key for azure models, which are deployments" },
    { name = "AZURE_OPENAI_ENDPOINT", kind = "address", provider = "azure",
        about = "address of the Azure resource: https://NAME.openai.azure.com" },
    { name = "AWS_BEARER_TOKEN_BEDROCK", kind = "key", provider = "bedrock",
        about = "key for bedrock models" },
    { name = "AWS_REGION", about = "region of bedrock models" },
}
for _, provider in ipairs { "openrouter", "groq", "deepseek", "mistral", "xai", "together" } do
    table.insert(environment.LIST, { name = provider:upper() .. "_API_KEY", kind = "key",
        provider = provider, about = ("key for %s models"):format(provider) })
end
for _, server in ipairs { { "vllm", "a vLLM server", 8000 },
    { "llamacpp", "a llama.cpp server", 8080 }, { "lmstudio", "an LM Studio server", 1234 } } do
    local provider, name = server[1], server[1]:upper()
    table.insert(environment.LIST, { name = name .. "_BASE_URL", kind = "address",
        provider = provider, about = ("address of %s (http://localhost:%d/v1)"):format(server[2],
        server[3]) })
    table.insert(environment.LIST, { name = name .. "_API_KEY", kind = "key", provider = provider,
        about = "its key, if it needs one" })
end
table.insert(environment.LIST, { name = "SSL_CERT_FILE",
    about = "PEM file of the authorities to trust, instead of the system's" })
table.insert(environment.LIST, { name = "NO_COLOR", about = "if not empty, turns colours off" })

---The names of the variables of a kind.
---@param provider string? nil: of all
function environment.names(kind, provider)
    local names = {}
    for _, variable in ipairs(environment.LIST) do
        if variable.kind == kind and (not provider or variable.provider == provider) then
            names[#names + 1] = variable.name
        end
    end
    return names
end

return environment
